package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
)

func TestMain(m *testing.M) { os.Exit(real.Main(m)) }

// inCheckout moves the test into an empty checkout of its own.
func inCheckout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module tunctl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "internal")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	return root
}

func TestPersonPlaysWithALabAndIsRidOfIt(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	root := inCheckout(t)
	t.Cleanup(func() { _ = run([]string{"down"}) })
	for _, words := range []string{"up", "status", "code", "cut silent", "restore silent", "delay 10ms", "delay 0s", "ssh lab-login true"} {
		if err := run(strings.Fields(words)); err != nil {
			t.Fatalf("labctl %s: %v", words, err)
		}
	}
	config := filepath.Join(root, "lab.toml")
	if text, err := os.ReadFile(config); err != nil || !strings.Contains(string(text), "[session.jupyter]") {
		t.Errorf("lab.toml: %q, %v", text, err)
	}
	if err := run([]string{"up"}); err == nil || !strings.Contains(err.Error(), "up already") {
		t.Errorf("a second labctl up: %v", err)
	}
	if err := run([]string{"down"}); err != nil {
		t.Errorf("labctl down: %v", err)
	}
	if _, err := os.Stat(config); err == nil {
		t.Error("lab.toml is still there")
	}
	if err := run([]string{"status"}); err == nil || !strings.Contains(err.Error(), "make lab-up") {
		t.Errorf("labctl status without a lab: %v", err)
	}
}

func TestConfigOfAPersonIsLeftAlone(t *testing.T) {
	root := inCheckout(t)
	config := filepath.Join(root, "lab.toml")
	if err := os.WriteFile(config, []byte("notify = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"up"}); err == nil || !strings.Contains(err.Error(), "lab.toml") {
		t.Errorf("labctl up: %v", err)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != "notify = true\n" {
		t.Errorf("it is %q now, %v", text, err)
	}
}

func TestTwoCheckoutsHaveTwoLabs(t *testing.T) {
	if one, two := labName("/a/tunctl"), labName("/b/tunctl"); one == two {
		t.Errorf("both are %q", one)
	}
}
