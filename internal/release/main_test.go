package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tunctl/internal/lab/real"
)

func TestMain(m *testing.M) { os.Exit(real.Main(m)) }

// newRelease is one of this source, for Linux on this machine's processor.
func newRelease(t *testing.T, version string) *release {
	t.Helper()
	source, err := git(t.Context(), ".", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skipf("this is no checkout: %v", err)
	}
	return &release{
		source: source, out: filepath.Join(t.TempDir(), "dist"), version: version, commit: "0123456789abcdef",
		date: time.Date(2026, 11, 15, 4, 0, 0, 0, time.UTC), platforms: []platform{{"linux", runtime.GOARCH}}, say: t.Logf,
	}
}

func TestTheSameSourceGivesTheSameBytesInAnyFolder(t *testing.T) {
	first := newRelease(t, "v1.2.3")
	if err := first.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := newRelease(t, "v1.2.3")
	second.source = filepath.Join(t.TempDir(), "elsewhere", "source")
	if err := copySource(t.Context(), first.source, second.source); err != nil {
		t.Fatal(err)
	}
	if err := second.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sameRelease(first.out, second.out); err != nil {
		t.Fatal(err)
	}
	checkArchive(t, first)
	checkBOM(t, first)
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

// checkArchive looks into the archive, and runs the program in it.
func checkArchive(t *testing.T, r *release) {
	t.Helper()
	p := r.platforms[0]
	dir := unpack(t, filepath.Join(r.out, r.baseName(p)+".tar.gz"))
	folder := filepath.Join(dir, r.baseName(p))
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/tunctl.1", "man/tunctl-up.1", "completion/bash", "completion/powershell"} {
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
	if want := fmt.Sprintf("tunctl v1.2.3 (commit 0123456789ab, %s, linux/%s)\n", runtime.Version(), p.arch); err != nil || string(out) != want {
		t.Errorf("version = %q, %v; want %q", out, err, want)
	}
}

// checkBOM compares the bill of materials with what the linker wrote down.
func checkBOM(t *testing.T, r *release) {
	t.Helper()
	name := filepath.Join(r.out, r.baseName(r.platforms[0]))
	text, err := os.ReadFile(name + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(filepath.Join(unpack(t, name+".tar.gz"), filepath.Base(name), "tunctl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Components) != len(info.Deps)+1 {
		t.Errorf("%d components, but %d modules and the standard library are linked", len(b.Components), len(info.Deps))
	}
	for _, m := range info.Deps {
		if !strings.Contains(string(text), fmt.Sprintf("%q", "pkg:golang/"+m.Path+"@"+m.Version)) {
			t.Errorf("%s %s is not in the bill", m.Path, m.Version)
		}
	}
	if strings.Contains(string(text), "goleak") {
		t.Error("the bill has what only tests use")
	}
}

func unpack(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
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
			return dir
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

func TestPackageVersionsAreOrderedAsReleasesAre(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":              "1.2.3",
		"v1.2.3-rc1":          "1.2.3~rc1",
		"v1.2.3-5-gabc1234":   "1.2.3+5.gabc1234",
		"v1.2.3-dirty":        "1.2.3+dirty",
		"abc1234":             "0.0.0+git.abc1234",
		"1234567-dirty":       "0.0.0+git.1234567+dirty",
		"v1.0.0-rc1-2-gabcde": "1.0.0~rc1+2.gabcde",
	} {
		if got := packageVersion(version); got != want {
			t.Errorf("packageVersion(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestEveryManifestNamesTheArchivesAndTheirSums(t *testing.T) {
	source, err := git(t.Context(), ".", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skipf("this is no checkout: %v", err)
	}
	r := &release{source: source, out: t.TempDir(), version: "v1.2.3", url: "https://example.org/v1.2.3/", say: t.Logf}
	for i, name := range everyPlatform() {
		p, err := parsePlatform(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.out, r.baseName(p)+p.archive()), []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.fillManifests(); err != nil {
		t.Fatal(err)
	}
	for file, platforms := range map[string][]string{
		"tunctl.rb":          {"darwin/arm64", "darwin/amd64", "linux/arm64", "linux/amd64"},
		"tunctl.scoop.json":  {"windows/amd64", "windows/arm64"},
		"tunctl.winget.yaml": {"windows/amd64", "windows/arm64"},
	} {
		text, err := os.ReadFile(filepath.Join(r.out, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range platforms {
			p, _ := parsePlatform(name)
			sum, err := sha256Of(filepath.Join(r.out, r.baseName(p)+p.archive()))
			if err != nil {
				t.Fatal(err)
			}
			if url := "https://example.org/v1.2.3/" + r.baseName(p) + p.archive(); !strings.Contains(string(text), url) || !strings.Contains(string(text), sum) {
				t.Errorf("%s does not name %s with its sum:\n%s", file, url, text)
			}
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON:\n%s", file, text)
		}
	}
}

// deb makes the .deb of a version.
func deb(t *testing.T, version string) string {
	t.Helper()
	r := newRelease(t, version)
	r.packages = true
	if err := r.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(r.out, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("packages: %v, %v", found, err)
	}
	return found[0]
}

func TestThePackageInstallsWorksUpgradesAndGoesWithoutATrace(t *testing.T) {
	real.Need(t, "package", "ssh")
	older, newer := deb(t, "v1.2.3"), deb(t, "v1.2.4")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "lintian", "--allow-root", "--fail-on", "error", older).CombinedOutput()
	t.Logf("lintian:\n%s", out)
	if err != nil {
		t.Errorf("lintian: %v", err)
	}
	out, err = exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "testdata/install.sh", older, newer).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tunctl v1.2.3 (commit", "200 OK", "man1/tunctl-up.1.gz", "completes: status",
		"the running agent is version v1.2.3, this program is v1.2.4: `tunctl agent restart` brings them together",
		"version v1.2.4, since", "nothing is left",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("never said %q", want)
		}
	}
}

func TestThePackagesAreTheSameBytesTwice(t *testing.T) {
	real.Need(t, "package")
	first, second := deb(t, "v1.2.3"), deb(t, "v1.2.3")
	if err := sameRelease(filepath.Dir(first), filepath.Dir(second)); err != nil {
		t.Error(err)
	}
}
