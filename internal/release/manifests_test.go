package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/lab/real"
)

// fillWithSmall fills the manifests for archives that hold a byte each.
func fillWithSmall(t *testing.T) *release {
	t.Helper()
	r := newRelease(t, "v1.2.3")
	r.out, r.url = t.TempDir(), "https://example.org/v1.2.3/"
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
	return r
}

// archiveOf is where a platform's archive will be found, and its sum.
func archiveOf(t *testing.T, r *release, name string) (url, sum string) {
	t.Helper()
	m := manifest{release: r}
	url, err := m.URL(name)
	if err != nil {
		t.Fatal(err)
	}
	if sum, err = m.SHA256(name); err != nil {
		t.Fatal(err)
	}
	return url, sum
}

// ruby runs a script, and reads the JSON that it prints.
func ruby(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ruby", args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ruby: %v\n%s", err, complaints.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestEveryManifestNamesTheArchivesAndTheirSums(t *testing.T) {
	r := fillWithSmall(t)
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
			if url, sum := archiveOf(t, r, name); !strings.Contains(string(text), url) || !strings.Contains(string(text), sum) {
				t.Errorf("%s does not name %s with its sum:\n%s", file, url, text)
			}
		}
	}
}

func TestScoopFindsTheProgramInEachArchive(t *testing.T) {
	r := fillWithSmall(t)
	text, err := os.ReadFile(filepath.Join(r.out, "tunctl.scoop.json"))
	if err != nil {
		t.Fatal(err)
	}
	var app struct {
		Version, Description, Homepage, License, Bin string
		Architecture                                 map[string]struct {
			URL, Hash string
			Folder    string `json:"extract_dir"`
		}
	}
	if err := json.Unmarshal(text, &app); err != nil {
		t.Fatal(err)
	}
	if app.Version != "1.2.3" || app.Description == "" || app.Homepage == "" || app.License != "Apache-2.0" || app.Bin != "tunctl.exe" {
		t.Errorf("%+v", app)
	}
	for scoop, name := range map[string]string{"64bit": "windows/amd64", "arm64": "windows/arm64"} {
		p, _ := parsePlatform(name)
		url, sum := archiveOf(t, r, name)
		if a := app.Architecture[scoop]; a.URL != url || a.Hash != sum || a.Folder != r.baseName(p) {
			t.Errorf("%s: %+v", scoop, a)
		}
	}
}

// TestWingetIsGivenWhatItsSchemaAsksFor is about the singleton manifest 1.6.0.
func TestWingetIsGivenWhatItsSchemaAsksFor(t *testing.T) {
	real.Need(t, "package")
	r := fillWithSmall(t)
	var app struct {
		PackageIdentifier, PackageVersion, PackageLocale, Publisher, PackageName, License, ShortDescription string
		PackageURL                                                                                          string `json:"PackageUrl"`
		ManifestType, ManifestVersion                                                                       string
		Commands                                                                                            []string
		Installers                                                                                          []struct {
			Architecture, InstallerType, NestedInstallerType, InstallerSha256 string
			InstallerURL                                                      string `json:"InstallerUrl"`
			NestedInstallerFiles                                              []struct{ RelativeFilePath, PortableCommandAlias string }
		}
	}
	ruby(t, &app, "-ryaml", "-rjson", "-rdate", "-e", "puts JSON.generate(YAML.load_file(ARGV[0], permitted_classes: [Date]))",
		filepath.Join(r.out, "tunctl.winget.yaml"))
	if !regexp.MustCompile(`^[^.\s]+\.[^.\s]+$`).MatchString(app.PackageIdentifier) || app.PackageVersion != "1.2.3" ||
		app.PackageLocale != "en-US" || app.ManifestType != "singleton" || app.ManifestVersion != "1.6.0" ||
		slices.Contains([]string{app.Publisher, app.PackageName, app.License, app.ShortDescription, app.PackageURL}, "") {
		t.Errorf("%+v", app)
	}
	if len(app.Installers) != 2 {
		t.Fatalf("%d installers", len(app.Installers))
	}
	for i, name := range []string{"windows/amd64", "windows/arm64"} {
		p, _ := parsePlatform(name)
		url, sum := archiveOf(t, r, name)
		in := app.Installers[i]
		if in.InstallerType != "zip" || in.NestedInstallerType != "portable" || in.InstallerURL != url || !strings.EqualFold(in.InstallerSha256, sum) {
			t.Errorf("%s: %+v", name, in)
		}
		if f := in.NestedInstallerFiles; len(f) != 1 || f[0].RelativeFilePath != r.baseName(p)+`\tunctl.exe` || f[0].PortableCommandAlias != "tunctl" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestHomebrewInstallsWhatIsInTheArchive(t *testing.T) {
	real.Need(t, "package")
	folder := unpack(t, made(t, "v1.2.3"))
	r := fillWithSmall(t)
	for name, args := range map[string][]string{
		"darwin/arm64": {"macos", "arm"}, "darwin/amd64": {"macos", "intel"},
		"linux/arm64": {"linux", "arm"}, "linux/amd64": {"linux", "intel"},
	} {
		var formula struct {
			Version, URL, SHA256, Homepage, License string
			Tested                                  bool
			Installed                               []string
		}
		ruby(t, &formula, append([]string{"testdata/formula.rb", filepath.Join(r.out, "tunctl.rb")}, append(args, folder)...)...)
		if url, sum := archiveOf(t, r, name); formula.URL != url || formula.SHA256 != sum {
			t.Errorf("%s: %+v", name, formula)
		}
		if formula.Version != "1.2.3" || formula.License != "Apache-2.0" || formula.Homepage == "" || !formula.Tested {
			t.Errorf("%s: %+v", name, formula)
		}
		for _, want := range []string{"bin/tunctl", "man1/tunctl-up.1", "bash_completion/tunctl", "zsh_completion/_tunctl", "fish_completion/tunctl.fish"} {
			if !slices.Contains(formula.Installed, want) {
				t.Errorf("%s: %s is not installed, but %v", name, want, formula.Installed)
			}
		}
	}
}
