package session

import (
	"context"
	"errors"
	"testing"

	"tunctl/configs"
	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
)

func TestAnUpRunsACommandInsideAgainBeforeItSaysReady(t *testing.T) {
	s := quietSession(t)
	s.cfg.App, s.cfg.Submit = configs.ShellApp, "builtin:shell"
	answer, refused := error(nil), make(chan struct{}, 1)
	followed{s}.OpenPage(&probe.Route{Inside: func(context.Context) error { return answer }, Refused: refused})
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

func TestForwardsOfAJobWithoutAPageLeadToItsNode(t *testing.T) {
	s := quietSession(t)
	s.cfg.App = configs.ShellApp
	s.save(t, saved(&api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}, nil))
	got := s.targetsLocked(true)
	if to, ok := got.Fixed.(nodeDialer); !ok || to.node != "cn01" {
		t.Errorf("they lead to %+v", got)
	}
}
