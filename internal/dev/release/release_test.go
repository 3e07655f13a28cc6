package main

import (
	"os"
	"path/filepath"
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
