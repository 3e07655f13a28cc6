package tray

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/show"
	"tunctl/internal/words"
)

// view is everything the menu is drawn from.
type view struct {
	Status       api.Status
	Reached      bool     // the agent answers
	CanAutostart bool     // start at login can be switched
	Autostart    bool     // and is on
	Asking       []string // who waits for the answer to a dialog: hosts, or "" for an assistant
	Now          time.Time
}

// menu is what the icon shows.
type menu struct {
	Icon    iconKind
	Tooltip string
	Items   []menuItem
}

// menuItem is an entry of the menu.
type menuItem struct {
	ID        choice
	Title     string
	Enabled   bool
	Checkable bool
	Checked   bool
	Separator bool
	Hidden    bool // it does not work now, and keeps its place
	Children  []menuItem
}

// choice says what an entry of the menu, or a button of a notification, does or is about.
type choice struct {
	top  bool // at the top of the menu: what it does is found further down as well
	verb verb
	name string // the session or host
	part string // a page or a job of the session, or choices for its next job
}

// String is for the log.
func (c choice) String() string {
	text := strings.TrimRight(c.verb.name+":"+c.name+"/"+c.part, ":/")
	if c.top {
		return "top-" + text
	}
	return text
}

// menuFor derives the menu: first what to do now, then every session and host.
func menuFor(v view) menu {
	items := firstItems(v)
	if v.Reached {
		items = slices.Concat(items, section("sessions", sessionItems(v)), section("hosts", hostItems(v)))
	}
	items = append(items, separator("end"), entry(verbDashboard, "", "Dashboard", true))
	if v.CanAutostart {
		items = append(items, menuItem{
			ID: choice{verb: verbAutostart}, Title: "Launch at startup", Enabled: true, Checkable: true, Checked: v.Autostart,
		})
	}
	items = append(items,
		entry(verbSettings, "", "Edit config…", true),
		entry(verbHelp, "", "Help", true),
		entry(verbQuit, "", quitTitle(v), true),
	)
	return menu{Icon: iconFor(v), Tooltip: "tunctl · " + statusLine(v), Items: items}
}

func entry(v verb, name, title string, enabled bool) menuItem {
	return menuItem{ID: choice{verb: v, name: name}, Title: title, Enabled: enabled}
}

// with is a submenu of entries.
func (m menuItem) with(children ...menuItem) menuItem {
	m.Children = children
	return m
}

// atTop is an entry at the top of the menu.
func atTop(v verb, name, title string) menuItem {
	return menuItem{ID: choice{top: true, verb: v, name: name}, Title: title, Enabled: true}
}

func separator(name string) menuItem {
	return menuItem{ID: choice{verb: verb{name: "separator"}, name: name}, Separator: true}
}

// section puts a line above items, if there are any.
func section(id string, items []menuItem) []menuItem {
	if len(items) == 0 {
		return nil
	}
	return append([]menuItem{separator(id)}, items...)
}

// firstItems are what the user most likely wants to do now.
func firstItems(v view) []menuItem {
	if !v.Reached {
		return []menuItem{entry(verbStartAgent, "", "Start tunctl", true)}
	}
	items := slices.Concat(answerItems(v), loginItems(v), openItems(v), resumeItems(v), troubleItems(v))
	if len(items) == 0 {
		items = append(items, startItem(v))
	}
	if p := v.Status.Config; p != nil {
		items = append(items, atTop(verbSettings, "", "Fix the config"+show.BriefCause(p.Message)))
	}
	return items
}

// answerItems raise the dialog that waits for an answer: other windows may hide it.
func answerItems(v view) []menuItem {
	if len(v.Asking) == 0 {
		return nil
	}
	return []menuItem{entry(verbAnswer, "", "Answer "+cmp.Or(brief(v.Asking[0]), "the assistant")+"…", true)}
}

// loginItems are the hosts that sessions wait for a login to.
func loginItems(v view) []menuItem {
	var items []menuItem
	for _, s := range v.Status.Sessions {
		item := atTop(verbLogin, s.Host, api.MenuLogin(brief(s.Host)))
		if s.State == api.SessionNeedsLogin && !slices.Contains(v.Asking, s.Host) && !slices.ContainsFunc(items, func(i menuItem) bool { return i.ID == item.ID }) {
			items = append(items, item)
		}
	}
	return items
}

// openItems are the page that is ready, or a choice of several.
func openItems(v view) []menuItem {
	ready := lists.Map(readyPages(v.Status), func(s api.Session) menuItem { return atTop(verbOpen, s.Name, brief(s.Name)) })
	switch len(ready) {
	case 0:
		return nil
	case 1:
		return []menuItem{entry(verbOpen, "", "Open "+ready[0].Title, true)}
	}
	return []menuItem{entry(verb{name: "choice"}, "", "Open…", true).with(ready...)}
}

// resumeItems connect everything again after crashes of the agent: an up of one session
// does.
func resumeItems(v view) []menuItem {
	i := slices.IndexFunc(v.Status.Sessions, func(s api.Session) bool { return s.State == api.SessionFailed })
	if !isPaused(v) || i < 0 {
		return nil
	}
	return []menuItem{atTop(verbReconnect, v.Status.Sessions[i].Name, api.MenuReconnect+show.BriefCause("the agent crashed several times"))}
}

// isPaused reports whether the agent restores nothing until the user acts.
func isPaused(v view) bool { return v.Status.Agent != nil && v.Status.Agent.Paused != nil }

// troubleItems are the sessions that failed. In a pause they have one cause, which
// resumeItems end.
func troubleItems(v view) []menuItem {
	if isPaused(v) {
		return nil
	}
	var failed []menuItem
	for _, s := range v.Status.Sessions {
		if s.State == api.SessionFailed {
			failed = append(failed, atTop(verbTrouble, s.Name, brief(s.Name)))
		}
	}
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return []menuItem{atTop(verbTrouble, failed[0].ID.name, "See why "+failed[0].Title+" failed…")}
	}
	return []menuItem{entry(verbTrouble, "", api.MenuTrouble, true).with(failed...)}
}

// startItem is the first entry if nothing is ready, waits for a login or failed.
func startItem(v view) menuItem {
	var idle, working []api.Session
	for _, s := range v.Status.Sessions {
		switch {
		case s.State == api.SessionDown || s.State == api.SessionEnded:
			idle = append(idle, s)
		case s.State != api.SessionReady:
			working = append(working, s)
		}
	}
	switch {
	case len(v.Status.Sessions) == 0:
		return entry(verbSetup, "", "Set up my first notebook…", true)
	case len(working) == 1:
		return entry(verbOpen, "", brief(working[0].Name)+" is not ready yet", false)
	case len(working) > 0:
		return entry(verbOpen, "", "Nothing is ready yet", false)
	case len(idle) == 0:
		return entry(verb{name: "status"}, "", "Everything is connected", false)
	case len(idle) == 1:
		do, title := startVerb(idle[0], v.Now, "Start ", "Reconnect to ")
		return atTop(do, idle[0].Name, title+brief(idle[0].Name))
	}
	return entry(verb{name: "choice"}, "", api.MenuStart+"…", true).with(lists.Map(idle, func(s api.Session) menuItem {
		do, title := startVerb(s, v.Now, "", "Reconnect to ")
		return atTop(do, s.Name, title+brief(s.Name))
	})...)
}

// startVerb says whether a start submits a job or reconnects to a running one.
func startVerb(s api.Session, now time.Time, start, reconnect string) (do verb, title string) {
	if s.State == api.SessionDown && s.MayHaveLiveJob(now) {
		return verbReconnect, reconnect
	}
	return verbUp, start
}

// readyPages are the sessions with a page to open now, the most recent first.
func readyPages(st api.Status) []api.Session {
	ready := slices.DeleteFunc(slices.Clone(st.Sessions), func(s api.Session) bool { return !openable(s) })
	slices.SortStableFunc(ready, func(a, b api.Session) int { return b.Since.Compare(a.Since) })
	return ready
}

// openable reports whether a session has a page to open now.
func openable(s api.Session) bool { return s.State == api.SessionReady && s.URL != "" }

// listMost is how many sessions or hosts are in the menu itself, so that its end stays on the screen.
const listMost = 8

// folded has the items of a list that matter now and, of a long one, the others in a submenu.
func folded(items []menuItem, rest menuItem, matters func(menuItem) bool) []menuItem {
	if len(items) <= listMost {
		return items
	}
	var shown []menuItem
	for _, item := range items {
		if matters(item) && len(shown) < listMost {
			shown = append(shown, item)
		} else {
			rest.Children = append(rest.Children, item)
		}
	}
	return append(shown, rest)
}

// sessionItems are the sessions, each with what can be done about it. Of many, those that do
// nothing now are in a submenu.
func sessionItems(v view) []menuItem {
	return folded(allSessionItems(v), entry(verb{name: "other-sessions"}, "", "Other sessions", true), func(item menuItem) bool {
		s, _ := v.Status.Session(item.ID.name)
		return mayBeCharged(s, v.Now) || s.State != api.SessionDown && s.State != api.SessionEnded
	})
}

func allSessionItems(v view) []menuItem {
	var items []menuItem
	for _, s := range v.Status.Sessions {
		up := s.IsUp()
		var children []menuItem
		for i, line := range show.OtherJobs(s, v.Now) {
			children = append(children, menuItem{ID: choice{verb: verb{name: "job"}, name: s.Name, part: fmt.Sprint(i)}, Title: words.Capital(show.Shorten(show.WithoutCommands(line), 90))})
		}
		if text := words.CellCounts(s.Cells); text != "" {
			children = append(children, menuItem{ID: choice{verb: verb{name: "job"}, name: s.Name, part: "cells"}, Title: show.Shorten(text, 90)})
		}
		children = append(children, entry(verbOpen, s.Name, "Open", openable(s)))
		for _, e := range s.Endpoints { // the job runs, but its own page may not be ready yet
			runs := s.State == api.SessionReady || s.State == api.SessionStarting
			children = append(children, menuItem{ID: choice{verb: verbOpen, name: s.Name, part: e.Name}, Title: "Open " + e.Title(), Enabled: runs})
		}
		start, title := startVerb(s, v.Now, api.MenuStart, api.MenuReconnect)
		children = append(children,
			entry(verbCopy, s.Name, "Copy address", openable(s)),
			entry(verbLog, s.Name, api.MenuLog, s.Job != nil),
			entry(start, s.Name, title, !up || s.State == api.SessionNeedsLogin),
		)
		children = append(children, startWithItems(s, !up && !s.MayHaveLiveJob(v.Now))...)
		children = append(children,
			entry(verbExtend, s.Name, verbExtend.button, s.Job != nil && s.Job.State == api.JobRunning && !s.Job.End.IsZero() && s.Next == nil && up),
			entry(verbKeep, s.Name, "Keep the unused job", !s.IdleEnd.IsZero() && up),
			entry(verbDown, s.Name, disconnectTitle(s, v.Now), up || isOver(s)),
			cancelItem(s, v.Now),
		)
		items = append(items, entry(verb{name: "session"}, s.Name, sessionLine(s, v.Now), true).with(usable(children...)...))
	}
	return items
}

// usable hides the actions that do not work now. They keep their places, so that the menu has the same shape while
// states change, also while it is open.
func usable(items ...menuItem) []menuItem {
	for i, it := range items {
		items[i].Hidden = !it.Enabled && it.ID.verb.name != "job"
	}
	return items
}

// startWithItems offer the choices of earlier runs. A job that runs already has its own.
func startWithItems(s api.Session, enabled bool) []menuItem {
	if len(s.Recent) == 0 {
		return nil
	}
	return []menuItem{entry(verb{name: "start-with"}, s.Name, "Start with…", enabled).with(lists.Map(s.Recent, func(with api.Choices) menuItem {
		return menuItem{ID: choice{verb: verbUpWith, name: s.Name, part: with.String()}, Title: with.String(), Enabled: enabled}
	})...)}
}

// isOver reports whether a session has failed or ended, which can be dismissed.
func isOver(s api.Session) bool { return s.State == api.SessionFailed || s.State == api.SessionEnded }

// disconnectTitle says what happens to the job.
func disconnectTitle(s api.Session, now time.Time) string {
	switch {
	case isOver(s):
		return "Dismiss"
	case !s.MayHaveLiveJob(now):
		return "Disconnect"
	case s.Job.State.Waiting():
		return "Disconnect (the job stays in the queue)"
	}
	return "Disconnect (the job keeps running, charged)"
}

// mayBeCharged reports whether the session has a job, or may get one by an earlier submission. Its
// own one counts until its time limit, if it is down.
func mayBeCharged(s api.Session, now time.Time) bool {
	if !s.MayHaveLiveJob(now) {
		s.Job = nil
	}
	return s.LiveText() != ""
}

// cancelItem confirms in a submenu before it ends the jobs: that needs no dialog.
func cancelItem(s api.Session, now time.Time) menuItem {
	charged := mayBeCharged(s, now)
	title := "Yes, end the job"
	switch {
	case charged && len(s.LiveJobs()) == 1 && s.LiveJobs()[0].State.Waiting():
		title = fmt.Sprintf("Yes, remove %s from the queue", s.LiveText())
	case charged:
		title = fmt.Sprintf("Yes, end %s (unsaved work is lost)", s.LiveText())
	}
	return entry(verb{name: "cancel-ask"}, s.Name, "End the job…", charged).with(entry(verbCancel, s.Name, title, charged))
}

// hostItems are the hosts, each with what can be done about it.
func hostItems(v view) []menuItem {
	shown := map[string]bool{}
	for _, s := range v.Status.Sessions {
		shown[s.Cause] = true
	}
	var items []menuItem
	for _, h := range v.Status.Hosts {
		login := api.MenuHostLogin
		if h.State == api.HostWaiting { // for the network, or its next try
			login = "Try now"
		}
		items = append(items, entry(verb{name: "host"}, h.Alias, brief(api.HostLabel(h.Alias))+": "+show.HostState(h, shown), true).with(usable(
			entry(verbLogin, h.Alias, login, h.State != api.HostUp && h.State != api.HostConnecting),
			entry(verbLogout, h.Alias, "Log out", h.State != api.HostDown),
		)...))
	}
	return folded(items, entry(verb{name: "other-hosts"}, "", "Other hosts", true), func(menuItem) bool { return true })
}

// quitTitle says that sessions stay connected without the icon.
func quitTitle(v view) string {
	var up []string
	for _, s := range v.Status.Sessions {
		if v.Reached && !s.State.Settled() {
			up = append(up, s.Name)
		}
	}
	switch len(up) {
	case 0:
		return "Quit"
	case 1:
		return "Quit (" + brief(up[0]) + " stays connected)"
	}
	return fmt.Sprintf("Quit (%d sessions stay connected)", len(up))
}

// priority has the states by how much they matter to the user, the least first.
var priority = []api.SessionState{
	api.SessionDown, api.SessionEnded, api.SessionQueued, api.SessionConnecting, api.SessionSubmitting, api.SessionStarting,
	api.SessionReady, api.SessionReconnecting, api.SessionFailed, api.SessionNeedsLogin,
}

// mostImportant is the session to mention first; there is at least one.
func mostImportant(sessions []api.Session) api.Session {
	return slices.MaxFunc(sessions, func(a, b api.Session) int {
		return cmp.Or(slices.Index(priority, a.State)-slices.Index(priority, b.State), a.Since.Compare(b.Since), strings.Compare(b.Name, a.Name))
	})
}

// iconFor picks the icon: first for what needs the user, then for what is ready, then
// for what is in progress.
func iconFor(v view) iconKind {
	if !v.Reached {
		return iconIdle
	}
	sessions := news(v)
	some := func(is func(s api.Session) bool) bool { return slices.ContainsFunc(sessions, is) }
	has := func(state api.SessionState) bool { return some(func(s api.Session) bool { return s.State == state }) }
	blocked := slices.ContainsFunc(v.Status.Hosts, func(h api.Host) bool { return h.State == api.HostBlocked })
	switch {
	case has(api.SessionNeedsLogin), len(v.Asking) > 0:
		return iconNeedsYou
	case has(api.SessionFailed), blocked, v.Status.Config != nil, isPaused(v):
		return iconTrouble
	case has(api.SessionReady):
		return iconReady
	case some(func(s api.Session) bool { return !s.State.Settled() }):
		return iconWorking
	case some(func(s api.Session) bool { return words.IsCharged(s, v.Now) }):
		return iconCharged
	}
	return iconIdle
}

// newsFor is how long a failure matters more than a session that is ready.
const newsFor = time.Hour

// news are the sessions without old failures: those from before another session was ready or was
// ended, and those of more than an hour ago if one is ready.
func news(v view) []api.Session {
	var since time.Time
	ready := false
	for _, s := range v.Status.Sessions {
		ready = ready || s.State == api.SessionReady
		if slices.Contains(afterFailure, s.State) && s.Since.After(since) {
			since = s.Since
		}
	}
	return slices.DeleteFunc(slices.Clone(v.Status.Sessions), func(s api.Session) bool {
		return s.State == api.SessionFailed && (s.Since.Before(since) || ready && v.Now.Sub(s.Since) > newsFor)
	})
}

// afterFailure are the states that a session enters after the user has seen the failure of another.
var afterFailure = []api.SessionState{api.SessionReady, api.SessionReconnecting, api.SessionEnded, api.SessionDown}

// statusLine is the most important state in a few words.
func statusLine(v view) string {
	switch {
	case !v.Reached:
		return "the background agent is not running"
	case len(v.Status.Sessions) == 0:
		return "no session is set up yet"
	case isPaused(v):
		return "not connecting" + show.BriefCause("the agent crashed several times")
	case len(v.Asking) > 0:
		return cmp.Or(brief(v.Asking[0]), "an assistant") + " waits for your answer"
	}
	return sessionLine(mostImportant(news(v)), v.Now)
}

// sessionLine is the state of a session with its name.
func sessionLine(s api.Session, now time.Time) string {
	line := brief(s.Name) + ": " + show.SessionState(s, now)
	if n := len(show.EarlierJobs(s, now)); n > 0 && s.State != api.SessionDown { // else the state says so
		line += " + " + words.Count(n, "other job")
	}
	return line
}

// brief is a name as the menu has it: a long one is cut.
func brief(name string) string { return show.Shorten(name, 30) }
