package sshconfig

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
)

// configFile copies a config of testdata to where its Include finds its file.
func configFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	included, err := filepath.Abs(filepath.Join("testdata", "included"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "INCLUDED", included)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) api.Code {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

// destinations are what to ask each config for.
var destinations = map[string][]string{
	"plain":      {"narval", "mila", "nobody-knows", "zoe@mila", "ssh://zoe@mila:99"},
	"tokens":     {"node-7", "other"},
	"jump":       {"inner", "direct", "corkscrew", "any"},
	"algorithms": {"old", "policy"},
	"forwards":   {"db", "other"},
	"include":    {"top", "deep", "other", "else"},
	"blocks":     {"a", "b", "c", "d", "deep"},
}

func TestOurOwnReadingAgreesWithTheSSHProgram(t *testing.T) {
	testprogram.Need(t, "ssh")
	for name, list := range destinations {
		for _, destination := range list {
			t.Run(name+"/"+destination, func(t *testing.T) {
				config := configFile(t, name)
				theirs, err := Resolver{SSHConfig: config}.fromProgram(t.Context(), destination)
				if err != nil {
					t.Fatal(err)
				}
				ours, err := fromFiles(destination, config)
				if err != nil {
					t.Fatal(err)
				}
				alike(t, &theirs)
				alike(t, &ours)
				a, b := reflect.ValueOf(theirs), reflect.ValueOf(ours)
				for i := range a.NumField() {
					if x, y := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
						t.Errorf("%s: ssh reads %#v, we read %#v", a.Type().Field(i).Name, x, y)
					}
				}
			})
		}
	}
}

// alike removes what may differ: which reader it was, the default keys of this
// build of ssh, and how forwards and unset values are written.
func alike(t *testing.T, s *Settings) {
	t.Helper()
	s.Source = ""
	if !s.OwnIdentities {
		s.IdentityFiles = nil
	}
	for _, list := range []*[]string{&s.LocalForwards, &s.RemoteForwards, &s.DynamicForwards} {
		for i, f := range *list {
			(*list)[i] = strings.NewReplacer("[", "", "]", "").Replace(f)
		}
		if len(*list) == 0 {
			*list = nil
		}
	}
	if len(s.Warnings) == 0 {
		s.Warnings = nil
	}
	if s.AddressFamily == "any" {
		s.AddressFamily = ""
	}
	// OpenSSH 10 prints none for these, and so do we mean them: see trafficClasses in tunnel.
	s.IPQoS = strings.NewReplacer("lowdelay", "none", "throughput", "none", "reliability", "none").Replace(s.IPQoS)
	if words := strings.Fields(s.IPQoS); len(words) == 2 && words[0] == words[1] {
		s.IPQoS = words[0]
	}
}

func TestACryptoPolicyIsRead(t *testing.T) {
	for name, resolve := range map[string]func(string, string) (Settings, error){
		"ssh -G": func(destination, config string) (Settings, error) {
			return Resolver{SSHConfig: config}.fromProgram(t.Context(), destination)
		},
		"ssh_config": fromFiles,
	} {
		s, err := resolve("policy", configFile(t, "algorithms"))
		if errors.Is(err, exec.ErrNotFound) {
			t.Log("there is no ssh program to ask")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.CASignatureAlgorithms, " "); got != "ssh-ed25519 rsa-sha2-512" {
			t.Errorf("%s: CASignatureAlgorithms %q", name, got)
		}
		if got := strings.Join(s.PubkeyAcceptedAlgorithms, " "); got != "ssh-ed25519 rsa-sha2-512 ecdsa-sha2-nistp256-cert-v01@openssh.com" {
			t.Errorf("%s: PubkeyAcceptedAlgorithms %q", name, got)
		}
		if s.RequiredRSASize != 2048 || !filepath.IsAbs(s.RevokedHostKeys) || filepath.Base(s.RevokedHostKeys) != "revoked" {
			t.Errorf("%s: %d, %q", name, s.RequiredRSASize, s.RevokedHostKeys)
		}
		if s, err = resolve("else", configFile(t, "algorithms")); err != nil || s.CASignatureAlgorithms != nil || s.PubkeyAcceptedAlgorithms != nil || s.RequiredRSASize != 1024 || s.RevokedHostKeys != "" {
			t.Errorf("%s: without a policy: %+v, %v", name, s, err)
		}
	}
}

func TestSettingsAreReadFromTheSSHProgram(t *testing.T) {
	testprogram.Need(t, "ssh")
	s, err := Resolver{SSHConfig: configFile(t, "match")}.Settings(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if s.Source != "ssh -G" || s.User != "matched" || s.Port != 2201 || s.Hostname != "web.example.org" || len(s.Ciphers) > 0 {
		t.Errorf("%+v", s)
	}
	bad := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(bad, []byte("Host x\n  Bogus 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Resolver{SSHConfig: bad}.Settings(t.Context(), "x")
	if codeOf(err) != api.CodeConfig || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a bad config: %v", err)
	}
}

func TestADestinationIsNoOption(t *testing.T) {
	for _, d := range []string{"", "-oProxyCommand=evil", "a b", "a\nb"} {
		if _, err := (Resolver{SSHConfig: "none"}).Settings(t.Context(), d); codeOf(err) != api.CodeUsage {
			t.Errorf("%q: %v", d, err)
		}
	}
}

func TestDestinationsAreTakenApart(t *testing.T) {
	for in, want := range map[string][3]string{
		"host":                 {"", "host", ""},
		"a@host":               {"a", "host", ""},
		"a@b@host":             {"a@b", "host", ""},
		"ssh://host":           {"", "host", ""},
		"ssh://a@host:22":      {"a", "host", "22"},
		"ssh://a@[fe80::1]:22": {"a", "fe80::1", "22"},
	} {
		user, host, port := splitDestination(in)
		if got := [3]string{user, host, port}; got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"host": "host", "a@host": "a@host", "a@host:2222": "ssh://a@host:2222", "host:2222": "ssh://host:2222",
		"[fe80::1]:22": "ssh://[fe80::1]:22", "fe80::1": "fe80::1", "ssh://x": "ssh://x",
	} {
		if got := hopDestination(in); got != want {
			t.Errorf("hop %q: %q, want %q", in, got, want)
		}
	}
}
