package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
)

func TestWheelVersionsAreThoseOfPEP440(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"v1.2.3-rc1":              "1.2.3rc1",
		"v1.2.3-rc.2":             "1.2.3rc2",
		"v1.2.3-beta.2":           "1.2.3b2",
		"v1.2.3-alpha1":           "1.2.3a1",
		"v1.2.3-5-gabc1234":       "1.2.3+5.gabc1234",
		"v1.2.3-dirty":            "1.2.3+dirty",
		"v1.0.0-rc1-2-gabc-dirty": "1.0.0rc1+2.gabc.dirty",
		"v1.2.3-try":              "1.2.3.dev0+try",
		"v1.2.3-try-2-gabc":       "1.2.3.dev0+try.2.gabc",
		"abc1234":                 "0.0.0+git.abc1234",
		"1234567-dirty":           "0.0.0+git.1234567.dirty",
	} {
		if got := wheelVersion(version); got != want {
			t.Errorf("wheelVersion(%q) = %q, want %q", version, got, want)
		}
	}
}

// wheelFiles reads a wheel: its files by name, and their modes.
func wheelFiles(t *testing.T, r *release, path string) (files map[string][]byte, modes map[string]fs.FileMode) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	files, modes = map[string][]byte{}, map[string]fs.FileMode{}
	for _, f := range z.File {
		const dataDescriptor = 8
		if f.Flags&dataDescriptor != 0 {
			t.Errorf("%s has a data descriptor, which PyPI refuses", f.Name)
		}
		if !f.Modified.Equal(r.date) {
			t.Errorf("%s is of %v, and not of the commit's time", f.Name, f.Modified)
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		modes[f.Name] = f.Mode()
	}
	if len(files) != len(z.File) {
		t.Error("a file is there twice")
	}
	return files, modes
}

// wheelNames are the names of the wheels by platform, without the version.
var wheelNames = map[string]string{
	"linux/amd64":   "py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
	"linux/arm64":   "py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl",
	"darwin/amd64":  "py3-none-macosx_12_0_x86_64.whl",
	"darwin/arm64":  "py3-none-macosx_12_0_arm64.whl",
	"windows/amd64": "py3-none-win_amd64.whl",
	"windows/arm64": "py3-none-win_arm64.whl",
}

// wheelOf makes a wheel for a platform of programs that are a few bytes.
func wheelOf(t *testing.T, name string) (r *release, path string) {
	t.Helper()
	p, err := parsePlatform(name)
	if err != nil {
		t.Fatal(err)
	}
	r = newRelease(t, "v1.2.3")
	r.out, r.url = t.TempDir(), "https://example.org/v1.2.3"
	stage := t.TempDir()
	writeFiles(t, stage, map[string]string{"man/tunctl.1": ".TH tunctl 1\n", "man/tunctl-config.5": ".TH tunctl-config 5\n", "tunctl": "program", "tunctlw.exe": "another"})
	programs := []archivedFile{{path: filepath.Join(stage, "tunctl"), name: p.program(), mode: 0o755}}
	if p.windowless() != "" {
		programs = append(programs, archivedFile{path: filepath.Join(stage, "tunctlw.exe"), name: p.windowless(), mode: 0o755})
	}
	if err := r.makeWheel(p, programs, stage); err != nil {
		t.Fatal(err)
	}
	return r, mustGlob(t, r, "*.whl")
}

func TestAWheelIsWhatPipAndPyPIAskFor(t *testing.T) {
	for _, platform := range everyPlatform() {
		t.Run(platform, func(t *testing.T) {
			r, path := wheelOf(t, platform)
			if got, want := filepath.Base(path), "tunctl_agent-1.2.3-"+wheelNames[platform]; got != want {
				t.Errorf("the wheel is %s, want %s", got, want)
			}
			files, modes := wheelFiles(t, r, path)
			const data, info = "tunctl_agent-1.2.3.data/", "tunctl_agent-1.2.3.dist-info/"
			want := []string{data + "data/share/man/man1/tunctl.1", data + "data/share/man/man5/tunctl-config.5", data + "scripts/tunctl"}
			if strings.HasPrefix(platform, "windows/") {
				want = []string{data + "scripts/tunctl.exe", data + "scripts/tunctlw.exe"}
			}
			want = append(want, info+"LICENSE", info+"METADATA", info+"RECORD", info+"WHEEL")
			if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
				t.Errorf("it holds\n%q, want\n%q", got, want)
			}
			for name, mode := range modes {
				wanted := fs.FileMode(0o644)
				if strings.HasPrefix(name, data+"scripts/") {
					wanted = 0o755
				}
				if mode != wanted {
					t.Errorf("%s has mode %v", name, mode)
				}
			}
			mustMatchRecord(t, files, info+"RECORD")
			mustNameTags(t, string(files[info+"WHEEL"]), filepath.Base(path))
			for _, line := range []string{"Name: tunctl-agent\n", "Version: 1.2.3\n", "License: Apache-2.0\n", "Requires-Python: >=3.6\n", "Project-URL: Download, https://example.org/v1.2.3\n"} {
				header, _, _ := strings.Cut(string(files[info+"METADATA"]), "\n\n")
				if !strings.Contains(header+"\n", "\n"+line) {
					t.Errorf("METADATA has no %q:\n%s", line, header)
				}
			}
		})
	}
}

// mustMatchRecord compares the files of a wheel with its list of them.
func mustMatchRecord(t *testing.T, files map[string][]byte, record string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(string(files[record]))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(files) {
		t.Errorf("%d files are listed, %d are there", len(rows), len(files))
	}
	for _, row := range rows {
		sum := sha256.Sum256(files[row[0]])
		want := []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(files[row[0]]))}
		if row[0] == record {
			want = []string{record, "", ""}
		}
		if !slices.Equal(row, want) {
			t.Errorf("the list says %q, want %q", row, want)
		}
	}
}

// mustNameTags compares the tags in a wheel's WHEEL with those in its name.
func mustNameTags(t *testing.T, about, name string) {
	t.Helper()
	_, platforms, _ := strings.Cut(strings.TrimSuffix(name, ".whl"), "-py3-none-")
	var want, got []string
	for platform := range strings.SplitSeq(platforms, ".") {
		want = append(want, "py3-none-"+platform)
	}
	for line := range strings.Lines(about) {
		if tag, ok := strings.CutPrefix(line, "Tag: "); ok {
			got = append(got, strings.TrimSpace(tag))
		}
	}
	if !slices.Equal(got, want) || !strings.Contains(about, "Wheel-Version: 1.0\n") || !strings.Contains(about, "Root-Is-Purelib: false\n") {
		t.Errorf("WHEEL names %q, the file %q:\n%s", got, want, about)
	}
}

func TestTheWheelInstallsWithPipWorksUpgradesAndGoesWithoutATrace(t *testing.T) {
	real.Need(t, "package", "ssh")
	older, newer := mustGlob(t, made(t, "v1.2.3"), "*.whl"), mustGlob(t, made(t, "v1.2.4"), "*.whl")
	inNewSystem(t, "wheel.sh", []string{older, newer},
		"Successfully installed tunctl-agent-1.2.3", "No broken requirements found.", "tunctl v1.2.3 (commit", "200 OK",
		"/tmp/home/env/share/man/man1/tunctl-up.1",
		`Exec="/tmp/home/env/bin/tunctl" agent run`,
		"Successfully installed tunctl-agent-1.2.4",
		"the running agent is version v1.2.3, this program is version v1.2.4; `tunctl agent restart` updates the agent",
		"version v1.2.4, since", "Successfully uninstalled tunctl-agent-1.2.4", "the environment is as it was", "nothing is left")
}
