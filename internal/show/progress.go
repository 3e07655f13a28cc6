package show

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"charm.land/bubbles/v2/spinner"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/term"
)

// Progress draws a session's progress, one line per step: a spinner while it lasts, ✓ and its
// time when it is done.
type Progress struct {
	term     *term.Terminal
	attaches bool // the job exists already
	quit     context.CancelFunc
	done     sync.WaitGroup

	mu    sync.Mutex
	last  api.Session // as it was shown
	text  string      // the current step
	since time.Time
	there bool // the host was connected or reconnected
}

// NewProgress begins to draw on the terminal. With attaches, the job exists already.
func NewProgress(t *term.Terminal, attaches bool) *Progress {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Progress{term: t, attaches: attaches, quit: cancel}
	if t.Live {
		s.done.Go(func() { s.spin(ctx) })
	}
	return s
}

// Show updates the progress to the session's newest state.
func (s *Progress) Show(x api.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.State == api.SessionReconnecting && s.there && x.NotRespondingSince.IsZero() { // now its page
		x.State = api.SessionStarting
	}
	if x.State != s.last.State {
		s.completeLocked(x)
		s.there = s.there || s.last.State == api.SessionConnecting || s.last.State == api.SessionReconnecting
		s.since, s.text = time.Now(), s.stepText(x)
		if s.text != "" && !s.term.Live {
			s.term.Say("… %s", s.text)
			if printsCause(x) {
				s.term.Say("  %s", x.Cause)
			}
		}
	} else if x.Cause != s.last.Cause && printsCause(x) && !s.term.Live {
		s.term.Say("  %s", x.Cause)
	}
	if x.Hint != s.last.Hint && x.Hint != "" && x.State == api.SessionQueued {
		s.term.Say("  → %s", x.Hint)
	}
	s.last = x
}

// completeLocked finishes the line of the step before x.
func (s *Progress) completeLocked(x api.Session) {
	if s.text == "" {
		return
	}
	if s.last.State == api.SessionStarting && x.State != api.SessionReady && !x.State.Settled() {
		return // the host is queried again: nothing is open or responds yet
	}
	took := time.Since(s.since)
	if x.State.Settled() {
		s.term.Say("%s %s", s.term.Paint(term.Red, "✗"), s.text)
		return
	}
	s.term.Say("%s %s %s", s.term.Paint(term.Green, "✓"), term.Pad(doneText(s.last.State, x), 44), s.term.Paint(term.Grey, Stopwatch(took)))
}

// printsCause reports whether a cause gets a line of its own where lines cannot be redrawn.
func printsCause(x api.Session) bool {
	return x.Cause != "" && (x.State == api.SessionQueued || x.State == api.SessionStarting || x.Cause == api.AskedElsewhere)
}

// Stop ends the drawing.
func (s *Progress) Stop() {
	s.quit()
	s.done.Wait()
	s.term.Draw("")
}

func (s *Progress) spin(ctx context.Context) {
	frames := spinner.MiniDot.Frames
	for i := 0; ctxtime.Sleep(ctx, spinner.MiniDot.FPS) == nil; i++ {
		s.mu.Lock()
		line := ""
		if s.text != "" {
			line = stepLines(frames[i%len(frames)], s.text, s.last.Cause, time.Since(s.since), s.term.Width())
		}
		s.mu.Unlock()
		s.term.Draw(line)
	}
}

// stepLines is the current step and its duration, with the reason why it takes time below: the
// reason is the most useful part, and too long for the same line.
func stepLines(frame, text, cause string, lasts time.Duration, width int) string {
	line := fmt.Sprintf("%s %s  %s", frame, text, Stopwatch(lasts))
	if cause == "" {
		return line
	}
	return line + "\n" + term.WrapMessage("  "+cause, max(0, width-1))
}

// stepText describes the step of a state that does not last.
func (s *Progress) stepText(x api.Session) string {
	switch {
	case x.State == api.SessionConnecting:
		return "connecting to " + x.Host
	case x.State == api.SessionReconnecting:
		return "reconnecting to " + x.Host
	case x.State == api.SessionSubmitting && s.attaches:
		return "finding the job"
	case x.State == api.SessionSubmitting:
		return "finding or submitting the job"
	case x.State == api.SessionQueued:
		return fmt.Sprintf("waiting in the queue (job %s)", x.Job.ID)
	case x.State == api.SessionStarting && x.Job == nil: // it has only forwards
		return "opening the forwards"
	case x.State == api.SessionStarting && x.App == api.AppShell:
		return "waiting for a command to run inside the job"
	case x.State == api.SessionStarting && x.App == "jupyter":
		return "waiting for the notebook to respond"
	case x.State == api.SessionStarting:
		return "waiting for the page to respond"
	}
	return ""
}

// doneText is the result of a step, now that the session is x.
func doneText(state api.SessionState, x api.Session) string {
	switch {
	case state == api.SessionConnecting:
		return "connected to " + x.Host
	case state == api.SessionReconnecting:
		return "reconnected to " + x.Host
	case state == api.SessionSubmitting && x.Job != nil:
		return strings.TrimSpace(fmt.Sprintf("job %s %s", x.Job.ID, x.Job.Name))
	case state == api.SessionQueued && x.Job != nil && (x.Job.Node != "" || x.Job.State == api.JobRunning):
		return strings.TrimSuffix("started on "+x.Job.Node, " on ") // its log may be first to say so
	case state == api.SessionStarting && x.Job == nil:
		return "opened the forwards"
	case state == api.SessionStarting && x.App == api.AppShell:
		return "ran a command inside job " + x.Job.ID
	case state == api.SessionStarting && x.Endpoint != nil:
		return strings.TrimSpace(fmt.Sprintf("%s responds on %s", x.Endpoint.App, x.Endpoint.Address()))
	}
	return string(state)
}
