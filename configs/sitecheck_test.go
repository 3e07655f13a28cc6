package configs

import (
	"slices"
	"strings"
	"testing"
)

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
