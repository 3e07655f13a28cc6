package ledger

import (
	"context"
	"testing"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/dev/ownertest"
)

// newLedger is the ledger of a session that nobody brings up.
func newLedger(t *testing.T) (*Ledger, *ownertest.Owner) {
	t.Helper()
	owner := ownertest.New(t)
	o := Options{
		Store: owner.Store, History: owner.History, Settings: owner.Settings, Log: owner.Log, Hosts: owner.Hosts, Source: owner.Source,
		Unsettled: func() {},
		Recover:   func(context.Context, string) error { return nil },
		FreeName:  func(base string) string { return base + "2" },
		Remember: func(session string, with api.Choices) {
			if err := owner.Store.Update(session, func(r *state.Session) { r.AddRecent(with) }); err != nil {
				t.Error(err)
			}
		},
	}
	return New(Session{Name: "jupyter"}, owner, o), owner
}
