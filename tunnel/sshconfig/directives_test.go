package sshconfig

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestUseKeychainIsExplainedWhereItWouldMatter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, "Host mine\n  UseKeychain yes\nHost *\n  UseKeychain no\n")
	for _, x := range []struct {
		name, goos, alias string
		said              directives // by ssh -G
		explained         bool
	}{
		{name: "in the file", goos: "darwin", alias: "mine", explained: true},
		{name: "printed by ssh -G", goos: "darwin", alias: "other", said: directives{"usekeychain": {"yes"}}, explained: true},
		{name: "not wanted", goos: "darwin", alias: "other"},
		{name: "no Mac", goos: "linux", alias: "mine"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := Settings{Alias: x.alias}
			explainKeychain(x.goos, &s, x.said, file)
			if got := slices.Contains(s.Warnings, keychainWarning); got != x.explained {
				t.Errorf("explained: %v", got)
			}
		})
	}
}
