package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
)

func TestAnUpRunsACommandInsideAgainBeforeItSaysReady(t *testing.T) {
	s := quietSession(t)
	s.cfg.App, s.cfg.Submit = configs.ShellApp, "builtin:shell"
	answer, refused := error(nil), make(chan struct{}, 1)
	s.openPage(&probe.Route{Inside: func(context.Context) error { return answer }, Refused: refused})
	s.save(t, saved(&api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}, nil))
	if s.current.State != api.SessionReady || s.current.Endpoint != nil || s.current.URL != "" {
		t.Fatalf("the session is %+v", s.current)
	}
	s.verify(t.Context())
	if s.current.State != api.SessionReady {
		t.Errorf("a command was run, and it is %s", s.current.State)
	}
	answer = errors.New("job 7 has ended")
	s.verify(t.Context())
	if s.current.State == api.SessionReady || s.current.Cause != "the job no longer responds: job 7 has ended" {
		t.Errorf("no command can be run, and it is %s: %s", s.current.State, s.current.Cause)
	}
	select {
	case <-refused:
	default:
		t.Error("the prober does not try again")
	}
}

func TestAJobThatCannotBeEnteredIsSaidToBeCharged(t *testing.T) {
	s := quietSession(t)
	s.cfg.App = configs.ShellApp
	r := &jobRun{session: s, prober: probe.New(probeOptions(s, newNodes(s, nil, nil)))}
	s.Change(func(f *facts.Facts) {
		f.Name, f.Answers = s.name, false
	})
	s.save(t, saved(&api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}, nil))
	r.proveShell(*s.facts.Job())
	if cause, hint := s.current.Cause, s.current.Hint; cause != "running a command inside job 7 on cn01" || hint != "" {
		t.Errorf("before the first try: %s (%s)", cause, hint)
	}
	if got := r.prober.Prove(t.Context(), r.prober.Target(), time.Now()); got.Route != nil || !strings.HasPrefix(got.Doing, "no command runs inside job 7 on cn01 yet: ") {
		t.Errorf("no node is connected, and it is proven: %+v", got)
	}
	r.handleProbe(probe.Result{Target: r.prober.Target(), Doing: "no command runs inside job 7 on cn01 yet: login refused"})
	if s.current.State != api.SessionStarting || !strings.Contains(s.current.Cause, "login refused") || !strings.Contains(s.current.Hint, "`tunctl down jupyter --cancel` ends it") {
		t.Errorf("it is %s: %s (%s)", s.current.State, s.current.Cause, s.current.Hint)
	}
}

func TestForwardsOfAJobWithoutAPageLeadToItsNode(t *testing.T) {
	s := quietSession(t)
	s.cfg.App = configs.ShellApp
	s.save(t, saved(&api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}, nil))
	got := s.targetsLocked(true)
	if to, ok := got.Fixed.(nodeDialer); !ok || to.node != "cn01" {
		t.Errorf("they lead to %+v", got)
	}
}
