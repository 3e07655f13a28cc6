// Package ownertest has a session that nobody brings up, for tests of what belongs to a session: its jobs
// and a run of its job.
package ownertest

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// Owner is a session that is ready, with nothing behind it.
type Owner struct {
	Settings *settings.Settings
	Store    *state.Store
	History  *state.History
	Hosts    *hosts.Hosts
	Log      *slog.Logger

	mu      sync.Mutex // of what follows, for what a goroutine of the tested part uses
	Session configs.Session
	Known   facts.Facts
	Notices []string
	Route   *probe.Route
}

// New returns such a session.
func New(t *testing.T) *Owner {
	t.Helper()
	paths := home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	st, err := state.Open(filepath.Join(t.TempDir(), "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	o := &Owner{
		Store: st, History: state.NewHistory(filepath.Join(t.TempDir(), "history")), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Session: configs.Session{Name: "jupyter", Host: "narval", Submit: "~/jupyter.sh"},
	}
	o.Settings = settings.Open(paths, "", o.Log)
	o.Hosts = hosts.New(hosts.Options{Settings: o.Settings, Store: st, Relays: filepath.Join(t.TempDir(), "relays"), Log: o.Log, Changed: func(api.Host) {}, Connections: tunnel.DefaultLimits(), Jobs: remote.DefaultLimits()})
	o.Known = facts.Facts{Name: o.Session.Name, Started: true, NeedsJob: true, Host: api.Host{State: api.HostUp}, Answers: true}
	o.Save(t, state.Session{Wanted: true})
	return o
}

// Save replaces its record.
func (o *Owner) Save(t *testing.T, rec state.Session) {
	t.Helper()
	if err := o.Record(func(*facts.Facts) {}, func(r *state.Session) { *r = rec }); err != nil {
		t.Fatal(err)
	}
}

// SetJob makes a job that of the session.
func (o *Owner) SetJob(t *testing.T, job api.Job) {
	t.Helper()
	o.Save(t, state.Session{Wanted: true, Submissions: state.Submissions{{Role: state.RoleJob, Job: &job}}})
}

// Configure replaces the config file.
func (o *Owner) Configure(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(o.Settings.Config().Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Settings.Reload(); err != nil {
		t.Fatal(err)
	}
}

// Told are the notices since the last call.
func (o *Owner) Told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	texts := o.Notices
	o.Notices = nil
	return texts
}

// Source is what its job is made from.
func (o *Owner) Source(cfg configs.Session) *submit.Source {
	return &submit.Source{Session: cfg, Section: cfg.Name, Host: o.Settings.Config().Host(cfg.Host), Sites: o.Settings.Sites(), Log: o.Log}
}

// Derived is the state that follows from the facts.
func (o *Owner) Derived() facts.Derived {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Known.Derive(time.Now())
}

// Config is its settings.
func (o *Owner) Config() configs.Session { return o.Session }

// Facts is what is known of it.
func (o *Owner) Facts() facts.Facts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Known
}

// Status is only its name.
func (o *Owner) Status() api.Session { return api.Session{Name: o.Session.Name} }

// InProgress is always true.
func (o *Owner) InProgress() bool { return true }

// Idle is always zero.
func (o *Owner) Idle(string) time.Duration { return 0 }

// Change changes what is known.
func (o *Owner) Change(apply func(*facts.Facts)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	apply(&o.Known)
}

// Record changes what is known and saved.
func (o *Owner) Record(apply func(*facts.Facts), change func(*state.Session)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	apply(&o.Known)
	err := o.Store.Update(o.Session.Name, change)
	o.Known.Saved = o.Store.Session(o.Session.Name)
	return err
}

// Notify keeps the text.
func (o *Owner) Notify(_ api.NoticeKind, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Notices = append(o.Notices, text)
}

// SetNodes does nothing.
func (o *Owner) SetNodes(*jobnode.Run) {}

// SetOthers does nothing.
func (o *Owner) SetOthers([]*probe.Page) {}

// OpenPage keeps the route.
func (o *Owner) OpenPage(r *probe.Route) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Route, o.Known.Answers = r, true
}

// ClosePage forgets the route.
func (o *Owner) ClosePage(show func(*facts.Facts)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Route, o.Known.Answers = nil, false
	show(&o.Known)
}

// HeldChanged does nothing.
func (o *Owner) HeldChanged() {}
