package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// shared is where releases are made that more than one test looks at.
var shared string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tunctl-shared-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// source is a copy of this source, made once: what is compared must not change
// between two builds because somebody saves a file.
func source(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(shared, "source")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	top, err := git(t.Context(), ".", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skipf("this is no checkout: %v", err)
	}
	if err := copySource(t.Context(), top, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newRelease is one of this source, for Linux on this machine's processor. Its
// archive is not compressed: that takes the race detector half a minute, and proves
// nothing.
func newRelease(t *testing.T, version string) *release {
	t.Helper()
	return &release{
		source: source(t), out: filepath.Join(shared, version), version: version, commit: "0123456789abcdef",
		date: time.Date(2026, 11, 15, 4, 0, 0, 0, time.UTC), platforms: []platform{{"linux", runtime.GOARCH}},
		packages: checked(), maintainer: nobody, say: t.Logf,
	}
}

// checked reports whether `make release-check` runs the tests.
func checked() bool { return os.Getenv("TUNCTL_RELEASE") != "" }

// made is a release of a version, made by the first test that asks for it.
func made(t *testing.T, version string) *release {
	t.Helper()
	r := newRelease(t, version)
	if _, err := os.Stat(filepath.Join(r.out, checksums)); err == nil {
		return r
	}
	if err := r.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// writeFiles writes texts to files below a folder.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// mustGlob is the one file of a release that a pattern matches.
func mustGlob(t *testing.T, r *release, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.out, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}
