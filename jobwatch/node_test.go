package jobwatch

import (
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestTheNodesOfAJobAreListedInTheSchedulersOrder(t *testing.T) {
	for list, want := range map[string]string{
		"":                        "",
		"cn[01-03]":               "cn01 cn02 cn03",
		"cn[08-11]":               "cn08 cn09 cn10 cn11",
		"cn[1,3-4],gpu7":          "cn1 cn3 cn4 gpu7",
		"login,cn[01-02]":         "login cn01 cn02",
		"rack[1-2]n[0-1]":         "rack1n0 rack1n1 rack2n0 rack2n1",
		"cn[01-02]-ib":            "cn01-ib cn02-ib",
		"x1000c0s[2-3]b0n0,nid99": "x1000c0s2b0n0 x1000c0s3b0n0 nid99",
		"cn[01":                   "cn01",
		"cn[b-a]":                 "cnb-a",
	} {
		got := Nodes(api.Job{Nodes: list})
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
	if got := Nodes(api.Job{Node: "cn07"}); !slices.Equal(got, []string{"cn07"}) {
		t.Errorf("one node: %q", got)
	}
	if got := len(Nodes(api.Job{Nodes: "cn[1-99999999]n[1-99999999]"})); got != maxNodes {
		t.Errorf("a list without end has %d nodes", got)
	}
}
