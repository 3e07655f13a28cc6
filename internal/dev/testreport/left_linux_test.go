package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is the program itself in the processes that TestLeft starts.
func TestMain(m *testing.M) {
	if os.Getenv("TESTREPORT") == "" {
		os.Exit(m.Run())
	}
	code, err := run(os.Args[1:], os.Stdout, 0)
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestLeft(t *testing.T) {
	other := exec.Command("sleep", "600") // of another run
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	for name, tt := range map[string]struct {
		script string
		want   []string
	}{
		"nothing":                          {"(exit 0) & wait", nil},
		"what has ended is gone":           {"pid=$(sh -c 'sleep 0 >/dev/null & echo $!') && while kill -0 $pid 2>/dev/null; do :; done", nil},
		"a program":                        {"sleep 600 >/dev/null 2>&1 & runs $!", []string{`"sleep 600" in `}},
		"a program and its own":            {"setsid sh -c 'sleep 600; :' >/dev/null 2>&1 & until child=$(cat /proc/$!/task/*/children) && test \"$child\"; do :; done; runs $child", []string{`"sh -c sleep 600; :" in `, `"sleep 600" in `}},
		"a program without an environment": {"cd /tmp && env -i /bin/sleep 600 >/dev/null 2>&1 & runs $!", []string{`"/bin/sleep 600" in /tmp`}},
		"one of a package":                 {"cd / && PWD=$PACKAGE sleep 600 >/dev/null 2>&1 & runs $!", []string{`"sleep 600" in /, PWD=PACKAGE`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := filepath.Join(dir, "go")
			if err := os.WriteFile(script, []byte("#!/bin/sh\nruns() { until grep -qsa '^[/bin]*sleep' /proc/$1/cmdline; do :; done; }\n"+tt.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], script)
			cmd.Env = append(os.Environ(), "TESTREPORT=1", "PACKAGE="+dir)
			out, err := cmd.CombinedOutput()
			if (err == nil) != (tt.want == nil) || strings.HasSuffix(string(out), "\nFAIL\n") != (tt.want != nil) || strings.Count(string(out), `" in `) != len(tt.want) {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), strings.ReplaceAll(want, "PACKAGE", dir)) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
