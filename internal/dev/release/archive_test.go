package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// unpack unpacks a release's archive and returns the one folder in it.
func unpack(t *testing.T, r *release) string {
	t.Helper()
	f, err := os.Open(mustGlob(t, r, "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	squeezed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for in := tar.NewReader(squeezed); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, r.baseName(r.platforms[0]))
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnArchiveHoldsAStaticProgramThatKnowsItsVersion(t *testing.T) {
	r := made(t, "v1.2.3")
	folder := unpack(t, r)
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/tunctl.1", "man/tunctl-up.1", "man/tunctl-config.5", "completion/bash", "completion/powershell"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("the archive's %s: %v", name, err)
		}
	}
	program := filepath.Join(folder, "tunctl")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			t.Error("the program is not static")
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	out, err := exec.CommandContext(t.Context(), program, "version").Output()
	if want := fmt.Sprintf("tunctl v1.2.3 (commit 0123456789ab, %s, linux/%s)\n", runtime.Version(), runtime.GOARCH); err != nil || string(out) != want {
		t.Errorf("version = %q, %v; want %q", out, err, want)
	}
}
