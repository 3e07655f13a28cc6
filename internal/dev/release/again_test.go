package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
