package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func TestWhyAStepTakesItsTimeIsReadableOnANarrowTerminal(t *testing.T) {
	const cause = "Priority; an earlier job like this waited until it was its turn, for about 3 h 20 min"
	for _, width := range []int{50, 60, 80} {
		text := stepLines("⠋", "waiting in the queue (job 4711)", cause, 3*time.Second, width)
		for line := range strings.SplitSeq(text, "\n") {
			if term.TextWidth(line) >= width {
				t.Errorf("%d columns do not fit %d: %s", term.TextWidth(line), width, line)
			}
		}
		if !strings.HasPrefix(text, "⠋ waiting in the queue (job 4711)  3.0 s\n") || !strings.Contains(strings.Join(strings.Fields(text), " "), cause) {
			t.Errorf("on %d columns:\n%s", width, text)
		}
	}
}

func TestAStepsTimeIsToldWithItsUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		4600 * time.Millisecond: "4.6 s", 65 * time.Second: "1 min 05 s", 62 * time.Minute: "1 h 02 min",
	} {
		if got := Stopwatch(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestProgressReconnected: after a restart of the agent the host is connected again, and then the page is asked.
func TestProgressReconnected(t *testing.T) {
	var said bytes.Buffer
	p := NewProgress(term.New(nil, nil, &said), false)
	defer p.Stop()
	for _, state := range []api.SessionState{api.SessionReconnecting, api.SessionReconnecting, api.SessionSubmitting, api.SessionReconnecting, api.SessionReady} {
		p.Show(api.Session{
			Name: "nb", Host: "narval", App: "jupyter", State: state, Job: &api.Job{ID: "7", State: api.JobRunning},
			Endpoint: &api.Endpoint{App: "jupyter", Host: "cn01", Port: 8888},
		})
	}
	for _, want := range []string{"✓ reconnected to narval", "✓ job 7", "… waiting for the notebook to respond", "✓ jupyter responds on cn01:8888"} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("%q is not there once in:\n%s", want, said.String())
		}
	}
}
