package jobnode

import (
	"errors"
	"testing"

	"tunctl/internal/api"
)

func TestANodeOfAJobIsNamedOrNumbered(t *testing.T) {
	nodes := New(Options{})
	nodes.SetJob(api.Job{ID: "7", State: api.JobRunning, Node: "cn01", Nodes: "cn[01-03]"})
	for which, want := range map[string]string{"": "cn01", "0": "cn01", "2": "cn03", "cn02": "cn02", "cn02.cluster.org": "cn02", "CN03": "cn03"} {
		if got, err := nodes.find(which); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", which, got, err, want)
		}
	}
	for _, which := range []string{"3", "-1", "cn04", "cn"} {
		_, err := nodes.find(which)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodeUsage || e.Hint != "its nodes: 0 cn01, 1 cn02, 2 cn03" {
			t.Errorf("%q: %v", which, err)
		}
	}
	nodes.SetServer("cn02.cluster.org", api.Endpoint{Port: 8888})
	if got, _ := nodes.find(""); got != "cn02" {
		t.Errorf("the server runs on cn02, and %q is chosen", got)
	}
	nodes.SetServer("localhost", api.Endpoint{Port: 8888})
	if got, _ := nodes.find(""); got != "cn01" {
		t.Errorf("a server on any loopback is looked for on %q", got)
	}
}

func TestANoticeIsToldOnce(t *testing.T) {
	nodes := New(Options{})
	nodes.AddNotice("files are those of the login node")
	if got := nodes.TakeNotices(); len(got) != 1 {
		t.Errorf("told %q", got)
	}
	if got := nodes.TakeNotices(); len(got) != 0 {
		t.Errorf("told again: %q", got)
	}
}
