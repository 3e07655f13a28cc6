package show

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// Status draws sessions with their notes, and hosts. In detail it has all that is known of sessions that have failed.
func Status(l term.Layout, st api.Status, detailed bool, now time.Time) string {
	notes := briefNotes
	if detailed {
		notes = sessionNotes
	}
	text, sessions := SharedCauses(l, st.Sessions)
	text += sessionTable(sessions, notes, now).Draw(l)
	if len(st.Hosts) == 0 {
		return text
	}
	said := map[string]bool{}
	for _, s := range st.Sessions {
		said[s.Cause] = true
	}
	return text + "\n" + Hosts(st.Hosts, said, now).Draw(l)
}

// SharedCauses has what several sessions of a host wait for, once, and the sessions without it.
func SharedCauses(l term.Layout, list []api.Session) (text string, rest []api.Session) {
	of := func(s api.Session) [3]string { return [3]string{s.Host, s.Cause, AnySession(s.Hint, s.Name)} }
	shared := map[[3]string]int{}
	for _, s := range list {
		if s.Cause != "" && slices.Contains(waitsForHost, s.State) {
			shared[of(s)]++
		}
	}
	for _, s := range list {
		if n := shared[of(s)]; n > 1 {
			shared[of(s)] = -1 // told
			text += l.Paint(term.Bold, api.Sanitize(s.Host)) + ", " + words.Count(n, "session") + ":\n" + l.Note(api.Sanitize(s.Cause))
			if s.Hint != "" {
				text += l.Note("→ " + api.Sanitize(AnySession(s.Hint, s.Name)))
			}
			text += "\n"
		}
		if shared[of(s)] < 0 {
			s.Cause, s.Hint = "", ""
		}
		rest = append(rest, s)
	}
	return text, rest
}

// AnySession is a hint for a session as that for any other: SESSION is in place of its name.
func AnySession(hint, name string) string {
	return strings.NewReplacer(" "+name+" ", " SESSION ", " "+name+"`", " SESSION`", "[session."+name+"]", "[session.SESSION]").Replace(hint)
}

// waitsForHost are the states in which several sessions may have one cause.
var waitsForHost = []api.SessionState{api.SessionConnecting, api.SessionReconnecting, api.SessionNeedsLogin, api.SessionFailed}

// Sessions has a row per session, and one line about one that is over.
func Sessions(list []api.Session, now time.Time) *term.Table {
	return sessionTable(list, briefNotes, now)
}

func sessionTable(list []api.Session, notes func(api.Session, time.Time) []string, now time.Time) *term.Table {
	sessions := &term.Table{
		Header: []string{"SESSION", "HOST", "STATE", "JOB", "LEFT", "TRAFFIC"},
		Whole:  []string{"STATE", "JOB", "LEFT", "TRAFFIC"}, Optional: []string{"TRAFFIC", "HOST"},
	}
	for _, s := range list {
		sessions.Add(notes(s, now),
			term.Cell{Text: s.Name, Colour: term.Bold}, term.Cell{Text: s.Host}, term.Cell{Text: words.Session(s, now), Colour: stateColour(s, now)},
			term.Cell{Text: jobText(s.Job)}, leftCell(s, now), term.Cell{Text: trafficText(s.Forwards), Colour: term.Grey})
	}
	return sessions
}

// noteWidth is how much of a cause fits a line of 80 columns.
const noteWidth = 76

// briefNotes are sessionNotes, or one line for a session that has failed or ended.
func briefNotes(s api.Session, now time.Time) []string {
	if s.Cause != "" && IsCut(s) {
		return append([]string{Shorten(cmp.Or(WithoutCommands(s.Cause), s.Cause), noteWidth)}, OtherJobs(s, now)...)
	}
	return sessionNotes(s, now)
}

// IsCut reports whether Status shows less of a session than is known.
func IsCut(s api.Session) bool {
	over := s.State == api.SessionFailed || s.State == api.SessionEnded
	return over && (s.Hint != "" || Shorten(s.Cause, noteWidth) != s.Cause)
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
			notes = append(notes, Forward(f, JobPlace(s)))
		}
	}
	for _, e := range s.Endpoints {
		if e.URL != "" {
			notes = append(notes, e.Name+": "+e.URL)
		} else {
			notes = append(notes, e.Name+": `"+OpenCommand(s.Name, e.Name)+"`")
		}
	}
	for _, text := range s.Warnings {
		notes = append(notes, "! "+text)
	}
	notes = append(notes, words.Inside(s, now)...)
	notes = append(notes, UsageNotes(s.Usage, now)...)
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
	if w := s.Websockets; w != nil && !w.Continue {
		notes = append(notes, "! kernels and terminals of the page have to reconnect after a lost connection: "+w.Why)
	}
	if s.Cause != "" {
		notes = append(notes, s.Cause)
	}
	if s.Hint != "" {
		notes = append(notes, "→ "+s.Hint)
	}
	return append(notes, OtherJobs(s, now)...)
}

// OtherJobs has a line for each job of a session that is or may be charged besides its own.
func OtherJobs(s api.Session, now time.Time) []string {
	if s.Next == nil {
		return EarlierJobs(s, now)
	}
	next := "next: job " + s.Next.ID + " is " + words.Job(s.Next.State) + expectedText(s.Next, now) + chargedText(*s.Next, now)
	return append([]string{next}, EarlierJobs(s, now)...)
}

// EarlierJobs has a line for each job that an earlier submission of a session made, or may still
// make.
func EarlierJobs(s api.Session, now time.Time) []string {
	var lines []string
	for _, j := range s.Others {
		if j.State.Ended() {
			continue
		}
		host, why := cmp.Or(j.Host, s.Host), ""
		if text := Why(j); text != "" {
			why = " (" + text + ")"
		}
		text := fmt.Sprintf("also: job %s on %s is %s", j.ID, api.HostLabel(host), words.Job(j.State))
		if j.State != api.JobCompleting {
			text += fmt.Sprintf("%s%s: `tunctl cancel %s %s` ends it", chargedText(j, now), why, host, j.ID)
		}
		lines = append(lines, text)
	}
	if s.Pending {
		lines = append(lines, fmt.Sprintf("the result of a submission is not known: its job may still appear, and is charged then; `tunctl jobs %s` lists it, `tunctl down %s --cancel` ends it", s.Host, s.Name))
	}
	return lines
}

// chargedText says until when a running job is charged at most.
func chargedText(j api.Job, now time.Time) string {
	if j.State != api.JobRunning {
		return ""
	}
	return " and is " + words.Charged(j, now)
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
	return "↓" + words.Bytes(in) + " ↑" + words.Bytes(out)
}

var sessionColours = map[api.SessionState]string{
	api.SessionReady: term.Green, api.SessionFailed: term.Red, api.SessionDown: term.Grey,
	api.SessionNeedsLogin: term.Yellow, api.SessionEnded: term.Yellow, api.SessionReconnecting: "",
	api.SessionConnecting: "", api.SessionSubmitting: "", api.SessionQueued: "", api.SessionStarting: "",
}

// stateColour is violet for a job that is charged without its session, as in the tray.
func stateColour(s api.Session, now time.Time) string {
	if words.IsCharged(s, now) {
		return term.Violet
	}
	return sessionColours[s.State]
}

// SessionPage draws everything known about one session and its job.
func SessionPage(l term.Layout, s api.Session, now time.Time) string {
	text := sessionTable([]api.Session{s}, sessionNotes, now).Draw(l)
	if s.Job != nil {
		text += "\n" + factsText(l, JobFacts(*s.Job, s.Host, now))
	}
	return text
}

// Forward says what a forward connects. Its place is the host, or the node that its job runs on.
func Forward(f api.Forward, place string) string {
	switch {
	case f.Kind == api.ForwardDynamic:
		return f.Listen + " is a SOCKS proxy on " + place
	case f.Kind == api.ForwardRemote:
		return fmt.Sprintf("%s on %s → %s here", f.Listen, place, f.Target)
	case f.Target == "": // not known yet
		return f.Listen
	}
	name, _, err := net.SplitHostPort(f.Target)
	addr, isName := netip.ParseAddr(name)
	if err != nil || name == "localhost" || isName == nil && addr.IsLoopback() { // a socket, or a port
		return fmt.Sprintf("%s → %s on %s", f.Listen, f.Target, place)
	}
	return fmt.Sprintf("%s → %s through %s", f.Listen, f.Target, place)
}

// sharedText says who may connect to a forward besides its owner.
func sharedText(f api.Forward) string {
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && OpenToOthers(host) {
		return "! shared: anyone who can reach " + f.Listen + " can connect"
	}
	return "! shared: other users of this computer can connect to " + f.Listen
}

// OpenToOthers reports whether others than this computer can reach an address.
func OpenToOthers(bind string) bool {
	addr, err := netip.ParseAddr(bind)
	return bind != "" && bind != "localhost" && (err != nil || !addr.IsLoopback())
}

// JobPlace is where the job of a session runs, in words; without a job, its host.
func JobPlace(s api.Session) string {
	if s.Job == nil {
		return s.Host
	}
	return cmp.Or(s.Job.Node, "the node of the job")
}

// Exposure says who else can reach a session's page, if tunctl knows of no password for it.
func Exposure(s api.Session) string {
	if s.Endpoint == nil || s.Job == nil {
		return ""
	}
	switch s.Endpoint.Exposure {
	case api.ExposureNode:
		return fmt.Sprintf("tunctl set no password for this page: other users who are on %s can reach it, too, while the job runs", s.Job.Node)
	case api.ExposureNetwork:
		return fmt.Sprintf("tunctl set no password for this page, and its program listens on all addresses of %s: everyone on the cluster's network can reach it. "+
			"If the program can listen on one address, have it listen on {host}", s.Job.Node)
	}
	return ""
}
