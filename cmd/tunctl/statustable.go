package main

import (
	"net"
	"strings"
	"time"

	"tunctl/internal/actions"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// statusTable draws sessions with their notes, and hosts.
func statusTable(l term.Layout, st api.Status, now time.Time) string {
	text := sessionsTable(st.Sessions, now).Draw(l)
	if len(st.Hosts) == 0 {
		return text
	}
	said := map[string]bool{}
	for _, s := range st.Sessions {
		said[s.Cause] = true
	}
	return text + "\n" + hostsTable(st.Hosts, said, now).Draw(l)
}

// sessionsTable has a row per session.
func sessionsTable(list []api.Session, now time.Time) *term.Table {
	sessions := &term.Table{
		Header: []string{"SESSION", "HOST", "STATE", "JOB", "LEFT", "TRAFFIC"},
		Whole:  []string{"STATE", "JOB", "LEFT", "TRAFFIC"}, Optional: []string{"TRAFFIC", "HOST"},
	}
	for _, s := range list {
		sessions.Add(sessionNotes(s, now),
			term.Cell{Text: s.Name, Colour: term.Bold}, term.Cell{Text: s.Host}, term.Cell{Text: string(s.State), Colour: sessionColours[s.State]},
			term.Cell{Text: jobText(s.Job)}, leftCell(s, now), term.Cell{Text: trafficText(s.Forwards), Colour: term.Grey})
	}
	return sessions
}

// hostsTable has a row per connected host, without the causes that are said already.
func hostsTable(list []api.Host, said map[string]bool, now time.Time) *term.Table {
	hosts := &term.Table{Header: []string{"HOST", "STATE", "SINCE", "LOGIN", "ROUND TRIP"}}
	for _, h := range list {
		var notes []string
		if h.Cause != "" && !said[h.Cause] {
			notes = append(notes, h.Cause)
		}
		notes = append(notes, h.Links...)
		if near := certificateNote(h, now); near != "" {
			notes = append(notes, near)
		}
		hosts.Add(notes, term.Cell{Text: api.HostLabel(h.Alias), Colour: term.Bold}, term.Cell{Text: string(h.State), Colour: hostColour(h)},
			term.Cell{Text: sinceText(h.Since, now)}, term.Cell{Text: loginText(h)}, term.Cell{Text: rttText(h.RTTMs)})
	}
	return hosts
}

// sessionNotes are the lines under a session.
func sessionNotes(s api.Session, now time.Time) []string {
	var notes []string
	switch {
	case s.URL != "":
		notes = append(notes, s.URL)
	case s.App == api.AppShell && s.State == api.SessionReady:
		notes = append(notes, "tunctl ssh "+s.Name)
	case s.Local != "" && s.State != api.SessionDown && (s.State == api.SessionReady || !s.State.Settled()):
		notes = append(notes, s.Local)
	}
	if len(s.With) > 0 {
		notes = append(notes, "with "+s.With.String())
	}
	if s.Of != "" {
		notes = append(notes, "a second session of "+s.Of)
	}
	for _, f := range s.Forwards {
		if s.Local == "" || f.Listen != s.Local && f.Endpoint == "" {
			notes = append(notes, forwardNote(s, f))
		}
	}
	for _, e := range s.Endpoints {
		if e.URL != "" {
			notes = append(notes, e.Name+": "+e.URL)
		} else {
			notes = append(notes, e.Name+": `"+actions.Page{Session: s.Name, Endpoint: e.Name}.Command("tunctl")+"`")
		}
	}
	notes = append(notes, usageNotes(s.Usage, now)...)
	for _, f := range s.Forwards {
		if f.Note != "" {
			notes = append(notes, "! "+f.Note)
		}
		if f.Shared {
			notes = append(notes, sharedText(f))
		}
		if f.Error != "" && !strings.Contains(s.Cause, f.Error) {
			notes = append(notes, "! "+f.Error)
		}
	}
	if s.Cause != "" {
		notes = append(notes, s.Cause)
	}
	if s.Hint != "" {
		notes = append(notes, "→ "+s.Hint)
	}
	if s.Next != nil {
		notes = append(notes, "next: job "+s.Next.ID+" is "+string(s.Next.State)+expectedText(s.Next, now))
	}
	return notes
}

// forwardNote says what a forward connects, in short.
func forwardNote(s api.Session, f api.Forward) string {
	note := f.Listen
	if f.Target != "" {
		note += " → " + f.Target
	}
	switch {
	case s.Job == nil: // there is no node
	case f.Kind == api.ForwardDynamic:
		note += " is a SOCKS proxy on " + jobPlace(s)
	case f.Target != "":
		note += " on " + jobPlace(s)
	}
	return note
}

// sharedText says who may connect to a forward besides its owner.
func sharedText(f api.Forward) string {
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && isOpenToOthers(host) {
		return "! shared: anyone who can reach " + f.Listen + " can connect"
	}
	return "! shared: other users of this computer can connect to " + f.Listen
}

func expectedText(j *api.Job, now time.Time) string {
	switch {
	case j.ExpectedStart.After(now):
		return ", expected start " + api.ClockText(j.ExpectedStart, now)
	case j.Reason != "" && j.State.Waiting():
		return ": " + j.Reason
	}
	return ""
}

func jobText(j *api.Job) string {
	switch {
	case j == nil:
		return "-"
	case j.Node != "" && !j.State.Ended():
		node, _, _ := strings.Cut(j.Node, ".")
		return j.ID + " on " + node
	}
	return j.ID
}

// leftCell is how long the job may still run; the last minutes are coloured. Whether that of a
// session that is down still runs is not known.
func leftCell(s api.Session, now time.Time) term.Cell {
	j := s.Job
	if j == nil || s.State == api.SessionDown || j.State != api.JobRunning || j.End.Before(now) {
		return term.Cell{Text: "-"}
	}
	left := j.End.Sub(now)
	c := term.Cell{Text: api.DurationText(left)}
	switch {
	case left <= 10*time.Minute:
		c.Colour = term.Red
	case left <= 30*time.Minute:
		c.Colour = term.Yellow
	}
	return c
}

// trafficText is the traffic of the session's forwards.
func trafficText(forwards []api.Forward) string {
	var in, out int64
	for _, f := range forwards {
		in, out = in+f.BytesIn, out+f.BytesOut
	}
	if in+out == 0 {
		return "-"
	}
	return "↓" + bytesText(in) + " ↑" + bytesText(out)
}

func loginText(h api.Host) string {
	text := strings.TrimSpace(h.User + "@" + h.Hostname)
	if h.LoginNode != "" {
		text = h.User + "@" + h.LoginNode
	}
	if h.Auth != "" && h.State == api.HostUp {
		text += " by " + h.Auth
	}
	return orDash(strings.Trim(text, "@"))
}

var sessionColours = map[api.SessionState]string{
	api.SessionReady: term.Green, api.SessionFailed: term.Red, api.SessionDown: term.Grey,
	api.SessionNeedsLogin: term.Yellow, api.SessionEnded: term.Yellow, api.SessionReconnecting: term.Yellow,
}

var hostColours = map[api.HostState]string{
	api.HostUp: term.Green, api.HostBlocked: term.Red, api.HostDown: term.Grey, api.HostNeedsLogin: term.Yellow, api.HostWaiting: term.Yellow,
}

func hostColour(h api.Host) string {
	if h.State == api.HostUp && !h.NotRespondingSince.IsZero() {
		return term.Yellow
	}
	return hostColours[h.State]
}
