package setup

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh/knownhosts"

	"tunctl/configs"
)

func TestALoginNodeIsRecognizedInKnownHostsAlsoIfHashed(t *testing.T) {
	sites := configs.Sites{
		{Name: "other", Entrances: []configs.Entrance{{Host: "login.other.example"}}},
		{Name: "far", Entrances: []configs.Entrance{{Host: "login.far.example", Aliases: []string{"login2.far.example"}}, {Host: "gate.far.example", Port: 2222}}},
	}
	const key = " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFqZQb0iGRsJs3v2vbqdkmGmUAWiGwUuJ1X3RhZd3oHf"
	hashed := func(host string) string { return knownhosts.HashHostname(knownhosts.Normalize(host)) }
	for line, want := range map[string][]string{
		"login.far.example,10.0.0.1" + key:        {"login.far.example", "10.0.0.1"},
		"[gate.far.example]:2222" + key:           {"gate.far.example"},
		hashed("login.far.example") + key:         {"login.far.example"},
		hashed("login2.far.example") + key:        {"login2.far.example"},
		hashed("gate.far.example:2222") + key:     {"gate.far.example"},
		hashed("elsewhere.example") + key:         nil,
		"*.far.example" + key:                     nil, // no host that the user used
		"@cert-authority login.far.example" + key: nil,
		"# login.far.example" + key:               nil,
		"|1|broken" + key:                         nil,
		"login.far.example":                       nil,
		"":                                        nil,
	} {
		if got := namesOfLine(line, sites); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestEachSiteIsSuggestedOnce(t *testing.T) {
	h := &sshHosts{sites: configs.Sites{
		{Name: "far", Entrances: []configs.Entrance{{Host: "login.far.example", Aliases: []string{"login*.far.example"}}}},
	}}
	for n, host := range []string{"login3.far.example", "login.far.example", "elsewhere.example", ""} {
		h.addHint(host, fmt.Sprint("reason ", n))
	}
	if len(h.hints) != 1 || h.hints[0] != (siteHint{"far", "reason 0"}) {
		t.Errorf("hints %v", h.hints)
	}
}
