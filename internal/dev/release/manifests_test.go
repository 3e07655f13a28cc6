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

	"tunctl/internal/dev/real"
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
		"tunctl.conda.yaml":  everyPlatform(),
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

// TestCondaIsGivenAnArchiveForEachOfItsPlatforms is about recipes of the first version, which
// rattler-build and conda-forge read.
func TestCondaIsGivenAnArchiveForEachOfItsPlatforms(t *testing.T) {
	real.Need(t, "package")
	folder := unpack(t, made(t, "v1.2.3"))
	r := fillWithSmall(t)
	var recipe struct {
		Schema  int `json:"schema_version"`
		Package struct{ Name, Version string }
		Source  []struct {
			If   string
			Then struct{ URL, SHA256 string }
		}
		Build struct {
			Script []struct{ Then, Else []string }
		}
		Tests []struct{ Script []any }
		About struct {
			Homepage, Summary, License string
			LicenseFile                string `json:"license_file"`
		}
	}
	ruby(t, &recipe, "-ryaml", "-rjson", "-e", "puts JSON.generate(YAML.load_file(ARGV[0]))", filepath.Join(r.out, "tunctl.conda.yaml"))
	if recipe.Schema != 1 || recipe.Package.Name != "tunctl-agent" || recipe.Package.Version != "1.2.3" || len(recipe.Tests) != 1 ||
		recipe.About.License != "Apache-2.0" || recipe.About.Summary == "" || recipe.About.Homepage == "" {
		t.Errorf("%+v", recipe)
	}
	want := map[string]string{
		"linux and x86_64": "linux/amd64", "linux and aarch64": "linux/arm64", "osx and x86_64": "darwin/amd64",
		"osx and arm64": "darwin/arm64", "win and x86_64": "windows/amd64", "win and arm64": "windows/arm64",
	}
	for _, s := range recipe.Source {
		if url, sum := archiveOf(t, r, want[s.If]); s.Then.URL != url || s.Then.SHA256 != sum {
			t.Errorf("%s: %+v", s.If, s.Then)
		}
	}
	if len(recipe.Source) != len(want) || len(recipe.Build.Script) != 1 {
		t.Fatalf("%d sources and %d scripts", len(recipe.Source), len(recipe.Build.Script))
	}
	// What it does on Unix works in the folder of the archive.
	prefix := t.TempDir()
	for _, line := range recipe.Build.Script[0].Then {
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", line)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "PREFIX="+prefix)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	for _, name := range []string{"bin/tunctl", "share/man/man1/tunctl-up.1", "share/man/man5/tunctl-sites.5", "share/zsh/site-functions/_tunctl"} {
		if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || name == "bin/tunctl" && info.Mode()&0o111 == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, recipe.About.LicenseFile)); err != nil {
		t.Error(err)
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
		for _, want := range []string{"bin/tunctl", "man1/tunctl-up.1", "man5/tunctl-sites.5", "bash_completion/tunctl", "zsh_completion/_tunctl", "fish_completion/tunctl.fish"} {
			if !slices.Contains(formula.Installed, want) {
				t.Errorf("%s: %s is not installed, but %v", name, want, formula.Installed)
			}
		}
	}
}

func TestCitation(t *testing.T) {
	real.Need(t, "package")
	var c struct {
		Version, Title, Type, Message, License string
		CFF                                    string `json:"cff-version"`
		Authors                                []struct{ Name string }
	}
	ruby(t, &c, "-ryaml", "-rjson", "-e", "puts JSON.generate(YAML.load_file(ARGV[0]))", filepath.Join(source(t), "CITATION.cff"))
	if c.CFF != "1.2.0" || c.Title != "tunctl" || c.Type != "software" || c.Message == "" || c.License != "Apache-2.0" ||
		len(c.Authors) != 1 || c.Authors[0].Name != "the tunctl developers" || c.Version != "" {
		t.Errorf("it says %+v", c)
	}
}
