package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheSameSourceGivesTheSameBytesInAnyFolder is about one platform; `make
// release-check` is about all of them, with an empty cache. It links once more what the
// other tests of this package look at, and the tests of upgrades link a second version;
// all of them find compiled what the first compiled.
func TestTheSameSourceGivesTheSameBytesInAnyFolder(t *testing.T) {
	first := made(t, "v1.2.3")
	second := *first
	second.source, second.out = filepath.Join(t.TempDir(), "elsewhere", "source"), filepath.Join(t.TempDir(), "dist")
	if err := os.CopyFS(second.source, os.DirFS(first.source)); err != nil {
		t.Fatal(err)
	}
	if err := second.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sameRelease(first.out, second.out); err != nil {
		t.Fatal(err)
	}
}

func TestARepeatedReleaseThatDiffersIsNamed(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for dir, sums := range map[string]string{first: "1  same\n2  tunctl.deb\n", second: "1  same\n3  tunctl.deb\n"} {
		if err := os.WriteFile(filepath.Join(dir, checksums), []byte(sums), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := sameRelease(first, second)
	if err == nil || !strings.HasSuffix(err.Error(), ": tunctl.deb") {
		t.Errorf("err = %v", err)
	}
}
