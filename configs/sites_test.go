package configs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// writeSite writes a site file and returns its path.
func writeSite(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name+".toml")
	if err := os.Chmod(folder, 0o755); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPersonsSiteCountsMoreThanAnAdministratorsAndThatMoreThanOurs(t *testing.T) {
	installed, own := t.TempDir(), t.TempDir()
	writeSite(t, installed, "narval", "like = \"slurm\"\ntitle = \"the centre's Narval\"\n")
	writeSite(t, installed, "fir", "like = \"slurm\"\ntitle = \"the centre's Fir\"\n")
	writeSite(t, installed, "ours", "like = \"mine\"\n") // the user's own may be its base
	writeSite(t, own, "narval", "like = \"slurm\"\ntitle = \"my Narval\"\n")
	writeSite(t, own, "mine", "like = \"fir\"\ntitle = \"mine\"\n")
	writeSite(t, own, "frontier", "like = \"slurm\"\ntitle = \"my Frontier\"\ncountry = \"Nowhere\"\n")
	sites, err := LoadSites(own, installed)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"narval": "my Narval", "fir": "the centre's Fir", "ours": "mine"} {
		if s, err := sites.Find(name); err != nil || s.Title != want {
			t.Errorf("%s is %q, %v; want %q", name, s.Title, err, want)
		}
	}
	if s, err := sites.Find("andes"); err != nil || s.Country != "Nowhere" { // it is like frontier
		t.Errorf("andes is in %q, %v", s.Country, err)
	}
}

func TestAnInstalledSiteThatOthersCanChangeIsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system's folder is protected there")
	}
	everybody := func(path string) error { return os.Chmod(path, 0o777) }
	stranger := os.Getuid() + 12345
	another := func(path string) error { return os.Chown(path, stranger, -1) }
	belongs := fmt.Sprintf("belongs to user %d", stranger)
	for name, x := range map[string]struct {
		change func(path string) error
		what   func(folder, file, elsewhere string) string
		want   string
	}{
		"everybody's file":             {everybody, func(_, file, _ string) string { return file }, "everybody can change "},
		"everybody's folder":           {everybody, func(folder, _, _ string) string { return folder }, "everybody can change "},
		"everybody's parent folder":    {everybody, func(folder, _, _ string) string { return filepath.Dir(folder) }, "everybody can change "},
		"a link to everybody's folder": {everybody, func(_, _, elsewhere string) string { return elsewhere }, "everybody can change "},
		"another's file":               {another, func(_, file, _ string) string { return file }, belongs},
		"another's folder":             {another, func(folder, _, _ string) string { return folder }, belongs},
		"a link to another's folder":   {another, func(_, _, elsewhere string) string { return elsewhere }, belongs},
	} {
		t.Run(name, func(t *testing.T) {
			folder, elsewhere := filepath.Join(t.TempDir(), "sites"), t.TempDir()
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil { // whatever the umask is
				t.Fatal(err)
			}
			file := filepath.Join(folder, "narval.toml")
			if err := os.Symlink(writeSite(t, elsewhere, "narval", "like = \"slurm\"\ntitle = \"not ours\"\n"), file); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadSites("", folder); err != nil {
				t.Fatalf("as it should be: %v", err)
			}
			if err := x.change(x.what(folder, file, elsewhere)); err != nil && x.want == belongs {
				t.Skip("needs root, and a system that knows other users") // a container may know one user only
			} else if err != nil {
				t.Fatal(err)
			}
			sites, err := LoadSites("", folder)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v", err)
			}
			if s, err := sites.Find("narval"); err != nil || s.Title == "not ours" {
				t.Errorf("narval is %q, %v", s.Title, err)
			}
		})
	}
}

func TestAListOfASiteWithoutEntriesIsEmptyInJSON(t *testing.T) {
	own := t.TempDir()
	writeSite(t, own, "bare", "title = \"bare\"\n")
	sites, err := LoadSites(own)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sites)
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestASiteIsFoundByItsTitleCountryAndLoginNodes(t *testing.T) {
	own := t.TempDir()
	writeSite(t, own, "kakapo", "like = \"slurm\"\ntitle = \"Kākāpō, University of Nowhere\"\ncountry = \"New Zealand\"\n[entrance.main]\nhost = \"login.kakapo.example\"\naliases = [\"login1.kakapo.example\"]\n")
	sites, err := LoadSites(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"kakapo", "NOWHERE", "new zealand", "zealand nowhere", "login1.kakapo"} {
		found := sites.Search(strings.Fields(words)...)
		if !slices.ContainsFunc(found, func(s Site) bool { return s.Name == "kakapo" }) || len(found) == len(sites) {
			t.Errorf("%q finds %d sites", words, len(found))
		}
	}
	if found := sites.Search("zealand", "narval"); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if words := sites.SearchWords(); !slices.Contains(words, "new zealand") || !slices.Contains(words, "nowhere") {
		t.Errorf("words %q", words)
	}
}

func TestASiteFileIsCheckedWithEveryScript(t *testing.T) {
	folder := t.TempDir()
	file := writeSite(t, folder, "ourlab", `
title = "Our lab"
[question.account]
ask = "Whose?"
required = true
[question.memory]
ask = "How much?"
kind = "memory"
required = true
[job]
directives = ["{{with .account}}--account={{.}}{{end}}"]
`)
	r, err := CheckSite(file, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, scheduler := range []string{"slurm", "pbs", "none"} {
		for _, app := range BuiltinJobs() {
			if !slices.ContainsFunc(r.Scripts, func(s SiteScript) bool { return s.App == app && s.Scheduler == scheduler && len(s.Text) > 0 }) {
				t.Errorf("no script of %s for %s", app, scheduler)
			}
		}
	}
	var missing []string
	for _, m := range r.Missing {
		missing = append(missing, m.Key)
	}
	if want := []string{"country", "scheduler", "entrance", "login", "reach", "balance", "help", "question.hours"}; !slices.Equal(missing, want) {
		t.Errorf("missing %q, want %q", missing, want)
	}
}

func TestTheSitesThatComeWithTunctlPassTheirOwnCheck(t *testing.T) {
	for _, s := range builtinSites(t) {
		data, err := siteFiles.ReadFile("sites/" + s.Name + ".toml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CheckSite(writeSite(t, t.TempDir(), s.Name, string(data)), ""); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func TestAnErrorInASiteFileHasItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"title = \"x\"\nschedular = \"slurm\"\n":                       "bad.toml:2:1: unknown key \"schedular\"",
		"like = \"nosuch\"\ntitle = \"x\"\n":                           "bad.toml:1:8: no site \"nosuch\"",
		"title = \"x\"\nlogin_pages = [\"https://iam.example.org\"]\n": "bad.toml:2:16: \"https://iam.example.org\" is not the name of a web host",
		"title = \"x\"\nlogin_pages = [\"IAM.example.org\"]\n":         "bad.toml:2:16: ",
		"title = \"x\"\nlogin_pages = [\"example.org:8443\"]\n":        "bad.toml:2:16: ",
		"title = \"x\"\n[job]\ndirectives = [\"{{.nosuch}}\"]\n":       "the template \"{{.nosuch}}\" cannot be filled",
	} {
		file := writeSite(t, t.TempDir(), "bad", text)
		if _, err := CheckSite(file, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := CheckSite(writeSite(t, t.TempDir(), "our lab", "title = \"x\"\n"), ""); err == nil || !strings.Contains(err.Error(), "cannot be the file of a site") {
		t.Errorf("a name with a space: %v", err)
	}
}
