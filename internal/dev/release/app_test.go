package main

import (
	"archive/zip"
	"debug/macho"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tinyRelease is one for a platform, of a program that does nothing: that is built in a
// moment, and packed as tunctl is.
func tinyRelease(t *testing.T, p platform) *release {
	t.Helper()
	r := newRelease(t, "v1.2.3-5-gabc1234")
	whole := r.source
	r.source, r.out, r.packages, r.platforms = t.TempDir(), filepath.Join(t.TempDir(), "dist"), false, []platform{p}
	files := map[string]string{
		"go.mod":             "module tunctl\n\ngo 1.26\n",
		"cmd/tunctl/main.go": "package main\n\nvar stamped, commit string\n\nfunc main() { _, _ = stamped, commit }\n",
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "packaging/Info.plist.tmpl", "packaging/METADATA.tmpl"} {
		data, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	writeFiles(t, r.source, files)
	if err := r.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// plist reads the values of a property list's one dictionary; those of <true/> are "true".
func plist(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var list struct {
		Dict struct {
			Items []struct {
				XMLName xml.Name
				Text    string `xml:",chardata"`
			} `xml:",any"`
		} `xml:"dict"`
	}
	if err := xml.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	values, items := map[string]string{}, list.Dict.Items
	if len(items)%2 != 0 {
		t.Fatalf("a key without a value:\n%s", text)
	}
	for i := 0; i < len(items); i += 2 {
		if items[i].XMLName.Local != "key" || values[items[i].Text] != "" {
			t.Errorf("%q is no key, or there twice", items[i].Text)
		}
		switch kind := items[i+1].XMLName.Local; kind {
		case "string":
			values[items[i].Text] = items[i+1].Text
		default:
			values[items[i].Text] = kind
		}
	}
	return values
}

func TestAReleaseForAMacHasTheApplicationBesideTheArchive(t *testing.T) {
	r := tinyRelease(t, platform{"darwin", "arm64"})
	app := mustGlob(t, r, "*_darwin_arm64.app.zip")
	mustGlob(t, r, "*_darwin_arm64.tar.gz")
	sums, err := os.ReadFile(filepath.Join(r.out, checksums))
	if sum, err := sha256Of(app); err != nil || !strings.Contains(string(sums), sum+"  "+filepath.Base(app)+"\n") {
		t.Errorf("%s is not in the checksums: %v\n%s", filepath.Base(app), err, sums)
	}
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(app)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	files := map[string][]byte{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = data
		want := os.FileMode(0o644)
		if f.Name == "tunctl.app/Contents/MacOS/tunctl" {
			want = 0o755
		}
		if f.Mode() != want || !f.Modified.Equal(r.date) {
			t.Errorf("%s is %v, of %v", f.Name, f.Mode(), f.Modified)
		}
	}
	values := plist(t, files["tunctl.app/Contents/Info.plist"])
	for key, want := range map[string]string{
		"CFBundlePackageType": "APPL", "CFBundleIdentifier": "tunctl.tunctl", "LSUIElement": "true",
		"CFBundleShortVersionString": "1.2.3", "CFBundleVersion": "1.2.3", "CFBundleGetInfoString": "tunctl v1.2.3-5-gabc1234",
	} {
		if values[key] != want {
			t.Errorf("%s is %q, want %q", key, values[key], want)
		}
	}
	if files["tunctl.app/Contents/Resources/"+values["CFBundleIconFile"]] == nil {
		t.Errorf("no icon %q", values["CFBundleIconFile"])
	}
	program := filepath.Join(t.TempDir(), "tunctl")
	if err := os.WriteFile(program, files["tunctl.app/Contents/MacOS/"+values["CFBundleExecutable"]], 0o600); err != nil {
		t.Fatal(err)
	}
	mustHaveUUID(t, program)
}

// mustHaveUUID looks for what macOS 26 does not run a program without.
func mustHaveUUID(t *testing.T, program string) {
	t.Helper()
	const loadUUID = 0x1b // LC_UUID
	f, err := macho.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, load := range f.Loads {
		if raw := load.Raw(); f.ByteOrder.Uint32(raw) == loadUUID {
			return
		}
	}
	t.Error("the program has no UUID: macOS 26 does not start it")
}

func TestAnApplicationsVersionIsThreeNumbers(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.20.3-rc1": "1.20.3", "v1.2.3-5-gabc1234": "1.2.3", "abc1234": "0.0.0", "1234567-dirty": "0.0.0",
	} {
		if got := versionNumbers(version); got != want {
			t.Errorf("versionNumbers(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestTheApplicationWithItsIconIsBuiltOnAMacOnly(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("this is a Mac")
	}
	dir := t.TempDir()
	err := run(t.Context(), []string{"-app", dir})
	if err == nil || !strings.Contains(err.Error(), "on a Mac") {
		t.Errorf("err = %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

func TestAnApplicationReplacesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	old := filepath.Join(dir, bundle, "Contents", "old")
	if err := errors.Join(os.WriteFile(program, []byte("new"), 0o600), os.MkdirAll(old, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := replaceFolder(filepath.Join(dir, bundle), []archivedFile{{path: program, name: "Contents/MacOS/tunctl", mode: 0o755}}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, bundle, "Contents", "MacOS", "tunctl"))
	if err != nil || info.Mode().Perm()&0o700 != 0o700 || info.Size() != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one's file is there: %v", err)
	}
}
