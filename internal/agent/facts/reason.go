package facts

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
	"tunctl/tunnel/forward"
)

// Reason describes a session's state for the waiting page in the browser.
func (f *Facts) Reason(v Derived, since, now time.Time) forward.Reason {
	host, page := cmp.Or(f.Host.Alias, "the host"), "Your notebook" // mostly it is one
	if !f.NeedsJob || f.Endpoint != nil && f.Endpoint.App != "" && f.Endpoint.App != "jupyter" {
		page = f.Name
	}
	r := forward.Reason{Text: words.Sentence(v.Cause, f.Host.Alias, f.Name), Hint: words.Capital(v.Hint, f.Host.Alias, f.Name), Since: since, Steps: f.steps(v.State, since)}
	switch v.State {
	case api.SessionConnecting:
		r.Title, r.Transient = "Connecting to "+host, true
	case api.SessionReconnecting:
		r = f.reconnecting(r, host, page)
	case api.SessionNeedsLogin:
		r.Kind, r.Title, r.Tray = forward.ReasonAttention, "Log in to continue", api.MenuLogin(host)
	case api.SessionSubmitting:
		r.Title, r.Transient = "Looking for the job", true
		if f.Submitting {
			r.Title = "Submitting the job"
		}
	case api.SessionQueued:
		r = f.queued(r, host, now)
	case api.SessionStarting:
		r.Title = page + " is starting"
	case api.SessionEnded:
		r.Kind, r.Title, r.Tray = forward.ReasonAttention, page+" has ended", f.Name+" ▸ "+api.MenuStart
	case api.SessionFailed:
		if f.Paused != nil {
			r.Kind, r.Title, r.Tray = forward.ReasonAttention, page+" is disconnected", f.Name+" ▸ "+api.MenuStart
			break
		}
		r.Kind, r.Title, r.Tray = forward.ReasonTrouble, page+" could not start", f.Name+" ▸ "+api.MenuStart
		switch {
		case f.Failure() == nil && f.Host.State != api.HostUp:
			r.Title, r.Tray = "Cannot connect to "+host, host+" ▸ "+api.MenuHostLogin
		case f.Served:
			r.Title = page + " has failed"
		}
	case api.SessionDown, api.SessionReady:
		r.Kind, r.Title, r.Tray = forward.ReasonAttention, page+" is not running", f.Name+" ▸ "+api.MenuStart
		if IsLive(f.Job()) && f.Job().State != api.JobCompleting && !f.Saved.Current().Cancel {
			r.Title, r.Tray = page+" is disconnected", f.Name+" ▸ "+api.MenuReconnect
		}
		r.Hint = cmp.Or(r.Hint, fmt.Sprintf("`tunctl up %s`", f.Name))
	}
	for _, link := range f.Host.Links { // text only: a server must not place a link on our page
		r.Facts = append(r.Facts, forward.Fact{Name: "Page of the login", Value: link})
	}
	if f.Lapsed && r.Kind == forward.ReasonProgress { // the user must ask for the job again
		r.Kind, r.Transient, r.Tray = forward.ReasonAttention, false, f.Name+" ▸ "+api.MenuStart
		r.Title = "Start " + strings.Replace(page, "Your", "your", 1) + " to continue"
	}
	return r
}

func (f *Facts) reconnecting(r forward.Reason, host, page string) forward.Reason {
	r.Transient = true
	switch {
	case f.suspended():
		r.Title = "The job is suspended"
	case f.Host.State != api.HostUp, !f.Host.NotRespondingSince.IsZero():
		r.Title = "Reconnecting to " + host
		if !f.Host.NotRespondingSince.IsZero() {
			r.Title = host + " is not responding"
		}
		if f.Job() != nil && !f.Job().State.Ended() {
			r.Text = strings.TrimSpace(r.Text + " The job keeps running meanwhile.")
		}
	default:
		r.Title = "Reconnecting to " + strings.Replace(page, "Your", "your", 1)
	}
	return r
}

// queued says why the job waits and how long, as far as that is known.
func (f *Facts) queued(r forward.Reason, host string, now time.Time) forward.Reason {
	j := f.Job()
	if j.State == api.JobHeld {
		r.Kind, r.Title, r.Text, r.Hint = forward.ReasonAttention, "The job is on hold", words.Sentence(j.Hint, f.Host.Alias, f.Name), ""
		return r
	}
	r.Title = "Waiting in the queue"
	if neverStarts(j) {
		r.Kind, r.Title = forward.ReasonAttention, "The job will not start"
		return r
	}
	r.Text = fmt.Sprintf("%s starts the job when it is its turn. You may close this page: the job keeps its place.", host)
	r.Hint = ""
	add := func(name, value string) {
		if value != "" {
			r.Facts = append(r.Facts, forward.Fact{Name: name, Value: value})
		}
	}
	why := words.Capital(cmp.Or(j.Hint, j.Reason))
	if j.State == api.JobConfiguring {
		why = "The node is being prepared"
	}
	add("Why", why)
	expected := "Not known yet"
	if j.ExpectedStart.After(now) {
		expected = fmt.Sprintf("%s, in %s", api.ClockText(j.ExpectedStart, now), api.DurationText(j.ExpectedStart.Sub(now).Round(time.Minute)))
	}
	add("Expected start", expected)
	add("Earlier waits", words.Capital(f.Waits))
	return r
}
