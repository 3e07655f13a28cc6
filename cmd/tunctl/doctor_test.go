package main

import (
	"archive/zip"
	"io"
	"net/url"
	"os/user"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
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
