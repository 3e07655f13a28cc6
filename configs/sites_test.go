package configs

import (
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
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPersonsSiteCountsMoreThanAnAdministratorsAndThatMoreThanOurs(t *testing.T) {
	installed, own := t.TempDir(), t.TempDir()
	writeSite(t, installed, "narval", "like = \"slurm\"\ntitle = \"the centre's Narval\"\n")
	writeSite(t, installed, "fir", "like = \"slurm\"\ntitle = \"the centre's Fir\"\n")
	writeSite(t, installed, "ours", "like = \"mine\"\n") // a person's own may be its base
	writeSite(t, own, "narval", "like = \"slurm\"\ntitle = \"my Narval\"\n")
	writeSite(t, own, "mine", "like = \"fir\"\ntitle = \"mine\"\n")
	sites, err := LoadSites(own, installed)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"narval": "my Narval", "fir": "the centre's Fir", "ours": "mine"} {
		if s, err := sites.Find(name); err != nil || s.Title != want {
			t.Errorf("%s is %q, %v; want %q", name, s.Title, err, want)
		}
	}
}

func TestAnInstalledSiteThatEverybodyCanChangeIsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system's folder is protected there")
	}
	for name, open := range map[string]func(folder, file string) string{
		"the file":   func(_, file string) string { return file },
		"the folder": func(folder, _ string) string { return folder },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file := writeSite(t, folder, "narval", "like = \"slurm\"\ntitle = \"not ours\"\n")
			if err := os.Chmod(open(folder, file), 0o777); err != nil {
				t.Fatal(err)
			}
			sites, err := LoadSites("", folder)
			if err == nil || !strings.Contains(err.Error(), "everybody can change "+open(folder, file)) {
				t.Errorf("error %v", err)
			}
			if s, err := sites.Find("narval"); err != nil || s.Title == "not ours" {
				t.Errorf("narval is %q, %v", s.Title, err)
			}
		})
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
