package agent

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// unknownHost has the host's key be unknown, so that a login has to ask the user; known
// takes that back.
func (l *modelLaptop) unknownHost() (known func()) {
	l.m.t.Helper()
	keys, err := os.ReadFile(l.known)
	must(l.m.t, err)
	text, err := os.ReadFile(l.ssh)
	must(l.m.t, err)
	l.m.write(l.ssh, strings.Replace(string(text), "StrictHostKeyChecking yes", "StrictHostKeyChecking ask", 1))
	l.m.write(l.known, "")
	return func() { l.m.write(l.known, string(keys)) }
}

// request is an up of a command, or of a click where it names none.
func (l *modelLaptop) request(req api.UpRequest) error {
	req.Session = modelSession
	l.granted, l.asked = time.Now(), time.Now()
	_, err := l.agent.Sessions.Up(context.Background(), req)
	l.m.sleep(5 * time.Second)
	return err
}

// needsLogin checks that the session waits for a login, and whether it may submit then.
func (l *modelLaptop) needsLogin(maySubmit bool) {
	l.m.t.Helper()
	if s := l.status(); s.State != api.SessionNeedsLogin || s.MaySubmit != maySubmit {
		l.m.t.Errorf("%s: %s (%s), may submit %v", s.State, s.Cause, s.Hint, s.MaySubmit)
	}
}

func TestPermit(t *testing.T) {
	onModel(t, "ends with its command", func(m *model, l *modelLaptop) {
		known, leave := l.unknownHost(), l.agent.Sessions.Wait("monday")
		must(m.t, l.request(api.UpRequest{Waiter: "monday", With: api.Choices{"hours": "3"}}))
		l.needsLogin(true)
		if with := l.status().With; with["hours"] != "3" {
			m.t.Errorf("it waits with %v", with)
		}
		leave()
		l.endPermit()
		l.needsLogin(false)
		if s := l.status(); !strings.Contains(s.Hint, "`tunctl up nb` does both") || len(s.With) > 0 {
			m.t.Errorf("the hint is %q; with %v", s.Hint, s.With)
		}
		known()
		l.login()
		if s := l.status(); s.State != api.SessionEnded {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		m.hasJobs(0)
		must(m.t, l.request(api.UpRequest{})) // the user's up does
		if s := l.status(); len(s.With) > 0 {
			m.t.Errorf("a later up without choices has %v", s.With)
		}
		m.hasJobs(1)
	})
	onModel(t, "of another command stays", func(m *model, l *modelLaptop) {
		known, leave := l.unknownHost(), l.agent.Sessions.Wait("one")
		defer l.agent.Sessions.Wait("other")()
		must(m.t, l.request(api.UpRequest{Waiter: "one"}))
		must(m.t, l.request(api.UpRequest{Waiter: "other"}))
		leave()
		l.needsLogin(true)
		known()
		l.login()
		m.hasJobs(1)
	})
	onModel(t, "is given by commands that wait", func(m *model, l *modelLaptop) {
		for _, wait := range []bool{false, true} {
			if wait {
				l.agent.Sessions.Wait("nobody")() // and leaves
			}
			err := l.request(api.UpRequest{Waiter: "nobody"})
			if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUsage {
				m.t.Errorf("err = %v", err)
			}
		}
		l.endPermit()
		m.hasJobs(0)
	})
	onModel(t, "ends and leaves the job", func(m *model, l *modelLaptop) {
		leave := l.agent.Sessions.Wait("brief")
		m.cluster.queue = time.Minute
		must(m.t, l.request(api.UpRequest{Waiter: "brief"}))
		m.hasJobs(1)
		leave()
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Cause != "waiting for job 101" {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
	})
	onModel(t, "is for one job, also one that ends at once", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "fails at once", answers: 5 * time.Second, fails: true}}
		must(m.t, l.request(api.UpRequest{}))
		m.sleep(5 * time.Minute)
		if s := l.status(); s.State != api.SessionFailed {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		m.hasJobs(1)
	})
	onModel(t, "is settled by a job that is found", func(m *model, l *modelLaptop) {
		m.cluster.queue = 5 * time.Hour
		l.mustUp()
		l.down(false)
		l.up()
		m.sleep(time.Second)
		if s := l.status(); s.Job == nil || s.MaySubmit {
			m.t.Errorf("job %+v, may submit %v", s.Job, s.MaySubmit)
		}
		m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil)
		m.sleep(time.Minute)
		if len(m.cluster.jobs) != 1 {
			m.t.Error("the job that was cancelled came back")
		}
	})
	onModel(t, "ends with an up of a section that was removed", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "never begins", notBegun: true}}
		l.up()
		m.sleep(5 * time.Second)
		l.section = false
		l.reload()
		l.up()
		m.sleep(5 * time.Minute)
		m.hasJobs(0)
	})
}
