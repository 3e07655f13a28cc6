package run

import (
	"testing"

	"tunctl/internal/agent/ledger"
	"tunctl/internal/dev/ownertest"
	"tunctl/jobwatch"
)

// newRun is a run of the job of a session that nobody brings up.
func newRun(t *testing.T) (*Run, *ownertest.Owner) {
	t.Helper()
	owner := ownertest.New(t)
	o := ledger.Options{
		Store: owner.Store, History: owner.History, Settings: owner.Settings, Log: owner.Log, Hosts: owner.Hosts, Source: owner.Source,
		Unsettled: func() {},
	}
	l := ledger.New(ledger.Session{Name: "jupyter"}, owner, o)
	return New(l, owner, owner.Hosts.Pool.Host("narval"), jobwatch.NewWatcher(nil, jobwatch.Options{}), nil, Limits{}, nil), owner
}
