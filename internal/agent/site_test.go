package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tunctl/configs"
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

// strictSite has names of its own for nodes.
const strictSite = `title = "Strict"
scheduler = "slurm"
dial = ["{node}-nmn", "{node}.hsn.example.org"]
[entrance.main]
host = "login.strict.example"
`

// strictAgent is an agent whose host "strict" has that site.
func strictAgent(t *testing.T, host string) *Agent {
	t.Helper()
	a := agentAt(t, "[host.strict]\nsite = \"strict\"\n"+host+"[session.jupyter]\nhost = \"strict\"\nsubmit = \"~/j.sh\"\n")
	folder := configs.SitesFolder(a.opt.Paths.Config)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "strict.toml"), []byte(strictSite), 0o600)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestASitesNamesForANodeAreDialledFirst(t *testing.T) {
	a := strictAgent(t, "")
	s, err := a.sessions.find("jupyter")
	if err != nil {
		t.Fatal(err)
	}
	nodes := newNodes(s, a.pool.Host("strict"), nil)
	for _, c := range []struct {
		announced, node string
		want            []string
	}{
		{"cn01.int", "cn01", []string{"cn01-nmn", "cn01.hsn.example.org", "cn01.int", "cn01"}},
		{"127.0.0.1", "cn01.int", []string{"cn01-nmn", "cn01.hsn.example.org", "cn01.int", "cn01"}},
		{"10.253.1.2", "cn01", []string{"10.253.1.2", "cn01-nmn", "cn01.hsn.example.org", "cn01"}}, // the job knows its address
		{"cn02", "", []string{"cn02-nmn", "cn02.hsn.example.org", "cn02"}},
	} {
		got := nodes.DialNames(t.Context(), c.announced, c.node, time.Now())
		if !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%q on %q: %q, want %q", c.announced, c.node, got, c.want)
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
