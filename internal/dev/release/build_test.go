package main

import (
	"archive/zip"
	"bytes"
	"debug/pe"
	"io"
	"path"
	"testing"
)

func TestAReleaseForWindowsHasAProgramThatOpensNoWindow(t *testing.T) {
	const gui, console = 2, 3
	r := tinyRelease(t, platform{"windows", "amd64"})
	z, err := zip.OpenReader(mustGlob(t, r, "*_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	found := map[string]uint16{}
	for _, f := range z.File {
		if path.Ext(f.Name) == ".exe" {
			found[path.Base(f.Name)] = subsystem(t, f)
		}
	}
	if len(found) != 2 || found["tunctl.exe"] != console || found["tunctlw.exe"] != gui {
		t.Errorf("programs and their subsystems: %v", found)
	}
}

// subsystem is that of a Windows program: whether Windows opens a console window for it.
func subsystem(t *testing.T, f *zip.File) uint16 {
	t.Helper()
	in, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	program, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return program.OptionalHeader.(*pe.OptionalHeader64).Subsystem
}
