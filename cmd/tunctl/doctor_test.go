package main

import (
	"archive/zip"
	"errors"
	"io"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

func TestRepeatedProblems(t *testing.T) {
	list := &checkList{said: map[string]bool{}, hosts: []string{"m3", "m4"}}
	lost := api.Check{Name: "session", Result: api.CheckUnknown, Text: "m3 needs you"}
	var told []string
	for _, about := range []string{"m3", "m4", "a", "b", "c"} {
		lost.About, lost.Fix = about, "run `tunctl up "+about+"`"
		if !list.repeats(lost) {
			told = append(told, about)
			list.about = about
		}
	}
	if !slices.Equal(told, []string{"m3", "m4", "a"}) || !slices.Equal(list.same, []string{"b", "c"}) {
		t.Errorf("told of %q, the same of %q", told, list.same)
	}
}

// leaks searches a zip file for the token in the address that the last command
// printed, the user's names and the words given: ! leaks FILE WORD...
func leaks(ts *testscript.TestScript, neg bool, args []string) {
	address, err := url.Parse(strings.TrimSpace(ts.ReadFile("stdout")))
	ts.Check(err)
	words := slices.Concat(args[1:], []string{address.Query().Get("token"), "student"})
	if u, err := user.Current(); err == nil {
		words = append(words, u.HomeDir+"/")
	}
	z, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer func() { _ = z.Close() }()
	for _, f := range z.File {
		r, err := f.Open()
		ts.Check(err)
		text, err := io.ReadAll(r)
		ts.Check(err)
		for _, w := range words {
			if w == "" {
				ts.Fatalf("nothing to look for")
			}
			if strings.Contains(string(text), w) == neg {
				ts.Fatalf("%s has %q: %v\n%s", f.Name, w, neg, text)
			}
		}
	}
}

func TestABundleHasNoLoginOrAccountThatTunctlKnows(t *testing.T) {
	cfg := &configs.Config{Sessions: []configs.Session{{Host: "narval", Args: []string{"-A", "def-one", "--time=1:00:00"}, With: map[string]string{"project": "def-two"}}}}
	st := api.Status{
		Hosts:    []api.Host{{Alias: "narval", User: "jdoe7"}},
		Sessions: []api.Session{{With: api.Choices{"account": "def-three"}, Recent: []api.Choices{{"account": "def-four"}}}},
	}
	runs := []api.Run{{With: api.Choices{"project": "def-five"}}}
	got := scrubber(t.Context(), home.In(t.TempDir()), cfg, st, runs).Scrub("jdoe7 in /project/def-one/def-two, def-three_gpu; def-four, def-five: 1:00:00")
	if want := "user in /project/account/account, account_gpu; account, account: 1:00:00"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSiteAdvice(t *testing.T) {
	p := home.In(t.TempDir())
	folder := configs.SitesFolder(p.Config)
	site := "title = \"Behind a VPN\"\nbefore = \"Connect to the VPN.\"\n[entrance.one]\nhost = \"127.0.0.1\"\nport = 1\n"
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(p.Config, []byte("[host.vpn]\nssh = \"127.0.0.1\"\nsite = \"behind\"\n"), 0o600),
		os.WriteFile(filepath.Join(folder, "behind.toml"), []byte(site), 0o600)); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[api.Code]string{api.CodeUnreachable: "Connect to the VPN.", api.CodeAuth: "another key"} {
		err := withSiteAdvice(t.Context(), p, "vpn", &api.Error{Code: code, Message: "127.0.0.1:1 refused the connection", Hint: "another key"})
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Hint != want {
			t.Errorf("%s: %#v", code, err)
		}
	}
}
