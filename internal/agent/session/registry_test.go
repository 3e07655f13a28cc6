package session

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestASessionForAJobIsCalledAfterHostAndJob(t *testing.T) {
	for id, want := range map[string]string{"48213": "ann-narval-48213", "1001.pbs101": "ann-narval-1001", "54_[2-5%2]": "ann-narval-54_-2-5-2"} {
		if got := attachedName("ann@narval", id); got != want {
			t.Errorf("attachedName(%q) = %q, want %q", id, got, want)
		}
	}
}

// TestALateChangeOfADroppedSessionIsNotShownAsTheNextOnes: `attach`, `down` and `up` of one name.
func TestALateChangeOfADroppedSessionIsNotShownAsTheNextOnes(t *testing.T) {
	a := quietSession(t).parts
	attach := func() *Session {
		s, err := a.Sessions.Attach(api.AttachRequest{Host: "narval", Name: "lab"}, api.Job{ID: "48213"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dropped := attach()
	a.Sessions.Forget(dropped)
	next := attach()
	heard := a.Hub.Subscribe("", api.AnswersNone)
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

func TestReplacedSession(t *testing.T) {
	t.Run("what comes late to it is not recorded", func(t *testing.T) {
		s := quietSession(t)
		s.save(t, saved(&api.Job{ID: "7", State: api.JobRunning}, nil))
		sub := s.Saved().Current()
		late := jobwatch.Report{Job: api.Job{ID: "7", State: api.JobFinished}, Asked: time.Now()}
		s.parts.Sessions.addLocked(s.cfg, fromConfig)
		if s.observer.record(late, sub, "") || !s.Saved().Current().Live() {
			t.Errorf("recorded: %+v", s.Saved())
		}
	})
}

func TestNotInside(t *testing.T) {
	for want, forwards := range map[string][]api.Forward{
		"":                             {{}, {Endpoint: "board"}},
		"2 of jupyter did":             {{Direct: 2}, {Endpoint: "board"}},
		"1 of jupyter and 3 of board ": {{Direct: 1}, {Endpoint: "board", Direct: 3}},
	} {
		if got := notInside(forwards, "jupyter"); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
