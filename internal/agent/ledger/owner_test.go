package ledger

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// testOwner is a session that nobody brings up.
type testOwner struct {
	config  configs.Session
	store   *state.Store
	facts   facts.Facts
	notices []string
}

func (o *testOwner) Config() configs.Session              { return o.config }
func (o *testOwner) Facts() facts.Facts                   { return o.facts }
func (o *testOwner) Status() api.Session                  { return api.Session{Name: o.config.Name} }
func (o *testOwner) InProgress() bool                     { return true }
func (o *testOwner) Idle(string) time.Duration            { return 0 }
func (o *testOwner) Change(apply func(*facts.Facts))      { apply(&o.facts) }
func (o *testOwner) Notify(_ api.NoticeKind, text string) { o.notices = append(o.notices, text) }

func (o *testOwner) Record(apply func(*facts.Facts), change func(*state.Session)) error {
	apply(&o.facts)
	err := o.store.Update(o.config.Name, change)
	o.facts.Saved = o.store.Session(o.config.Name)
	return err
}

// newLedger is the ledger of such a session.
func newLedger(t *testing.T) (*Ledger, *testOwner) {
	t.Helper()
	st, err := state.Open(filepath.Join(t.TempDir(), "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	known := settings.Open(home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}, "", log)
	owner := &testOwner{config: configs.Session{Name: "jupyter", Host: "narval", Submit: "~/jupyter.sh"}, store: st}
	o := Options{
		Store: st, History: state.NewHistory(filepath.Join(t.TempDir(), "history")), Settings: known, Log: log, Unsettled: func() {},
		Hosts: hosts.New(hosts.Options{Settings: known, Store: st, Log: log, Changed: func(api.Host) {}, Connections: tunnel.DefaultLimits(), Jobs: remote.DefaultLimits()}),
		Source: func(cfg configs.Session) *submit.Source {
			return &submit.Source{Session: cfg, Section: cfg.Name, Sites: known.Sites(), Log: log}
		},
		Recover:  func(context.Context, string) error { return nil },
		FreeName: func(base string) string { return base + "2" },
		Remember: func(session string, with api.Choices) {
			if err := st.Update(session, func(r *state.Session) { r.AddRecent(with) }); err != nil {
				t.Error(err)
			}
		},
	}
	return New(Session{Name: "jupyter"}, owner, o), owner
}
