package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFolderOfSomethingElseIsNotEmptied(t *testing.T) {
	r := &release{out: t.TempDir()}
	precious := filepath.Join(r.out, "thesis.tex")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.emptyOut(); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestPlatformsOfManifests(t *testing.T) {
	r := newRelease(t, "v1.2.3")
	r.out, r.url = filepath.Join(t.TempDir(), "dist"), "https://example.org"
	if err := r.make(t.Context()); err == nil || !strings.Contains(err.Error(), "leave out -url, or add ") {
		t.Errorf("it says %v", err)
	}
	if _, err := os.Stat(r.out); err == nil {
		t.Error("something was made")
	}
}
