package main

import (
	"archive/zip"
	"io"
	"net/url"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

// leaks searches a zip file for the token in the address that the last command
// printed, the person's names and the words given: ! leaks FILE WORD...
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
