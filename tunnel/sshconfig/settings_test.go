package sshconfig

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
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

func TestTimesOfSSHConfigAreRead(t *testing.T) {
	for in, want := range map[string]time.Duration{"": 0, "none": 0, "30": 30 * time.Second, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute, "-5": 0} {
		if got := seconds(in); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestPathsOfSSHGAreSplitWhereTheyBegin(t *testing.T) {
	got := pathList("/home/a b/.ssh/known_hosts /etc/ssh/x ~/y")
	if !slices.Equal(got, []string{"/home/a b/.ssh/known_hosts", "/etc/ssh/x", "~/y"}) {
		t.Errorf("%q", got)
	}
}
