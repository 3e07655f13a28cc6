package agent_test

import (
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestANewAgentKnowsTheJobOfASessionThatIsDown(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	check := func(when string) {
		t.Helper()
		st, err := w.client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, _ := st.Session("jupyter")
		if s.State != api.SessionDown || s.Job == nil || s.Job.ID != before.Job.ID {
			t.Fatalf("%s: %+v", when, s)
		}
		if !strings.Contains(s.Cause, "job "+before.Job.ID+" keeps running and is charged") || !strings.Contains(s.Hint, "--cancel") {
			t.Errorf("%s: cause %q, hint %q", when, s.Cause, s.Hint)
		}
	}
	check("after the restart")
	if _, err := w.client.PageURL(t.Context(), "jupyter"); err == nil { // it makes the session, which stays down
		t.Fatal("a session that is down has a page")
	}
	check("after it was asked for")
}

func TestANewAgentThatCannotConnectKnowsTheJob(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.stop()
	if err := w.cluster.Refuse(true); err != nil {
		t.Fatal(err)
	}
	w.start()
	now := w.until("waiting for the host", func(s api.Session) bool {
		return s.State == api.SessionConnecting && strings.Contains(s.Cause, "next try")
	})
	if now.Job == nil || now.Job.ID != before.Job.ID {
		t.Errorf("before %+v, after %+v", before.Job, now.Job)
	}
	if err := w.cluster.Refuse(false); err != nil {
		t.Fatal(err)
	}
	if after := w.until("ready", ready); after.Job.ID != before.Job.ID {
		t.Errorf("before %+v, after %+v", before.Job, after.Job)
	}
}
