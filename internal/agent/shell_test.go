package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
)

func TestOnlyACommandThatSucceedsProvesAJobToWorkIn(t *testing.T) {
	status := func(n uint32) *ssh.Request {
		return &ssh.Request{Type: "exit-status", Payload: ssh.Marshal(struct{ Status uint32 }{n})}
	}
	for name, tt := range map[string]struct {
		sent []*ssh.Request
		want string
	}{
		"success":                 {[]*ssh.Request{{Type: "keepalive@openssh.com"}, status(0)}, ""},
		"another status":          {[]*ssh.Request{status(127)}, "ended with status 127"},
		"the end of the channel":  {nil, "did not report how it ended"},
		"a killed command":        {[]*ssh.Request{{Type: "exit-signal"}}, "did not report how it ended"},
		"a status without number": {[]*ssh.Request{{Type: "exit-status"}}, "ended with status"},
	} {
		requests := make(chan *ssh.Request, len(tt.sent))
		for _, r := range tt.sent {
			requests <- r
		}
		close(requests)
		err := exitStatus(t.Context(), requests)
		if got := errText(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exitStatus(ctx, make(chan *ssh.Request)); !errors.Is(err, context.Canceled) {
		t.Errorf("a command that does not end: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAnUpRunsACommandInsideAgainBeforeItSaysReady(t *testing.T) {
	s := quietSession(t)
	s.cfg.App, s.cfg.Submit = configs.ShellApp, "builtin:shell"
	answer, refused := error(nil), make(chan struct{}, 1)
	s.openPage(&route{inside: func(context.Context) error { return answer }, refused: refused})
	s.change(func(f *facts.Facts) { f.Job = &api.Job{ID: "7", State: api.JobRunning, Node: "cn01"} })
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

func TestAJobThatCannotBeEnteredIsTriedSeldom(t *testing.T) {
	p := newProber(&session{agent: &Agent{limits: DefaultLimits()}}, nil)
	now, before := time.Now(), time.Now().Add(-2*time.Minute)
	for _, tt := range []struct {
		shell bool
		since time.Time
		want  time.Duration
	}{{false, now, time.Second}, {false, before, 10 * time.Second}, {true, now, 10 * time.Second}, {true, before, time.Minute}} {
		if got := p.pause(&probeTarget{shell: tt.shell}, tt.since); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestAJobThatCannotBeEnteredIsSaidToBeCharged(t *testing.T) {
	s := quietSession(t)
	s.cfg.App = configs.ShellApp
	r := &jobRun{session: s, prober: newProber(s, nil)}
	s.change(func(f *facts.Facts) {
		f.Name, f.Answers, f.Job = s.name, false, &api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}
	})
	r.proveShell(*s.facts.Job)
	if cause, hint := s.current.Cause, s.current.Hint; cause != "running a command inside job 7 on cn01" || hint != "" {
		t.Errorf("before the first try: %s (%s)", cause, hint)
	}
	if got := r.prober.prove(t.Context(), r.prober.target, time.Now()); got.route != nil || !strings.HasPrefix(got.doing, "no command runs inside job 7 on cn01 yet: ") {
		t.Errorf("no node is connected, and it is proven: %+v", got)
	}
	r.handleProbe(probeResult{target: r.prober.target, doing: "no command runs inside job 7 on cn01 yet: login refused"})
	if s.current.State != api.SessionStarting || !strings.Contains(s.current.Cause, "login refused") || !strings.Contains(s.current.Hint, "`tunctl down jupyter --cancel` ends it") {
		t.Errorf("it is %s: %s (%s)", s.current.State, s.current.Cause, s.current.Hint)
	}
}

func TestForwardsOfAJobWithoutAPageLeadToItsNode(t *testing.T) {
	s := quietSession(t)
	s.cfg.App = configs.ShellApp
	s.facts.Job = &api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}
	got := s.targetLocked(&sessionForward{}, true)
	if to, ok := got.Dialer.(nodeDialer); !ok || to.node != "cn01" {
		t.Errorf("they lead to %+v", got)
	}
}
