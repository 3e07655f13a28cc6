package sshconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheOlderNamesOfAPolicyAreRead(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	write(t, config, "Host *\n PubkeyAcceptedKeyTypes -rsa-sha2-*,ssh-ed25519\n RSAMinSize 3072\n RevokedHostKeys none\n")
	s, err := fromFiles("host", config)
	if err != nil || s.RequiredRSASize != 3072 || s.RevokedHostKeys != "" {
		t.Errorf("%d, %q, %v", s.RequiredRSASize, s.RevokedHostKeys, err)
	}
	if list := s.PubkeyAcceptedAlgorithms; slices.Contains(list, "ssh-ed25519") || slices.Contains(list, "rsa-sha2-512") || !slices.Contains(list, "ecdsa-sha2-nistp256") {
		t.Errorf("%q", list)
	}
}

func TestAMatchWeCannotReadIsLeftOutAndNamed(t *testing.T) {
	s, err := fromFiles("web", configFile(t, "match"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Port != 2203 || s.Hostname != "web.example.org" || len(s.Warnings) != 2 || !strings.Contains(s.Warnings[0], "match:1") {
		t.Errorf("%+v", s)
	}
}

func TestAliasesListsWhatAPersonNamed(t *testing.T) {
	got, err := Aliases(configFile(t, "include"))
	if err != nil || !slices.Equal(got, []string{"deep", "other", "top"}) {
		t.Errorf("Aliases: %q %v", got, err)
	}
	if got, err := Aliases(configFile(t, "blocks")); err != nil || !slices.Equal(got, []string{"a", "b", "c", "deep", "other"}) {
		t.Errorf("Aliases of blocks: %q %v", got, err)
	}
	if _, err := Aliases(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file that was asked for is no error")
	}
}

func TestTunctlsOwnNamesAreNoHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("Host narval.tun jupyter.tun *.tun\nHost narval\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Aliases(file); err != nil || !slices.Equal(got, []string{"narval"}) {
		t.Errorf("Aliases: %q %v", got, err)
	}
}

func TestListsAreAmended(t *testing.T) {
	all := []string{"a", "b", "c1", "c2"}
	for in, want := range map[string]string{"x,a": "x a", "+x,a": "a b c1 c2 x", "-b,c*": "a", "^c2,x": "c2 x a b c1"} {
		if got := strings.Join(amend(all, in), " "); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
