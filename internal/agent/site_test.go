package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

// agentAt is an agent that never serves, with a config.
func agentAt(t *testing.T, config string) *Agent {
	t.Helper()
	dir := t.TempDir()
	paths := home.Paths{Config: filepath.Join(dir, "config.toml"), State: dir, Socket: filepath.Join(dir, "s")}
	if err := os.WriteFile(paths.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Paths: paths, Limits: DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestASessionForAJobIsCalledAfterHostAndJob(t *testing.T) {
	for id, want := range map[string]string{"48213": "ann-narval-48213", "1001.pbs101": "ann-narval-1001", "54_[2-5%2]": "ann-narval-54_-2-5-2"} {
		if got := attachedName("ann@narval", id); got != want {
			t.Errorf("attachedName(%q) = %q, want %q", id, got, want)
		}
	}
}

// TestALateChangeOfADroppedSessionIsNotShownAsTheNextOnes: `attach`, `down` and `up` of one name.
func TestALateChangeOfADroppedSessionIsNotShownAsTheNextOnes(t *testing.T) {
	a := agentAt(t, "")
	attach := func() *session {
		s, err := a.sessions.attach(api.AttachRequest{Host: "narval", Name: "lab"}, api.Job{ID: "48213"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dropped := attach()
	a.sessions.forget(dropped)
	next := attach()
	heard := a.hub.Subscribe("", api.AnswersNone)
	dropped.save(t, saved(&api.Job{ID: "1"}, nil))
	next.save(t, saved(&api.Job{ID: "2"}, nil))
	select {
	case e := <-heard.C:
		if e.Session == nil || e.Session.Job == nil || e.Session.Job.ID != "2" {
			t.Errorf("what is shown first: %+v", e.Session)
		}
	default:
		t.Error("nothing is shown")
	}
}
