package tray

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

// View is everything the menu is drawn from.
type View struct {
	Status    api.Status
	Reached   bool // the agent answers
	Autostart bool // start at login is on
	Can       Abilities
	Now       time.Time
}

// Abilities say which entries there is a doer for.
type Abilities struct{ Autostart, StartAgent, Login, Logout bool }

// Menu is what the icon shows.
type Menu struct {
	Icon    IconKind
	Tooltip string
	Items   []Item
}

// Item is an entry of the menu.
type Item struct {
	ID        string // a verb, and after a colon the session or host it is about
	Title     string
	Enabled   bool
	Checkable bool
	Checked   bool
	Separator bool
	Children  []Item
}

// The verbs of entries that do something.
const (
	verbOpen       = "open" // without a name: the one page that is ready
	verbPick       = "pick" // open, chosen of several
	verbCopy       = "copy"
	verbLog        = "log"
	verbUp         = "up"
	verbDown       = "down"
	verbCancel     = "cancel"
	verbExtend     = "extend" // from a notification
	verbLogin      = "login"
	verbLogout     = "logout"
	verbStartAgent = "start-agent"
	verbAutostart  = "autostart"
	verbSettings   = "settings"
	verbHelp       = "help"
	verbQuit       = "quit"
)

const openTitle = "Open my notebook"

// MenuFor draws the menu. Entries that cannot be used now are greyed and not left
// out, so that the menu keeps its shape, and an open one its place, while states
// change.
func MenuFor(v View) Menu {
	line := statusLine(v)
	items := []Item{text("status", line)}
	if p := v.Status.Config; p != nil && v.Reached {
		items = append(items, text("config", "The settings have a mistake: "+brief(p.Message)))
	}
	items = append(items, openItem(v))
	if !v.Reached && v.Can.StartAgent {
		items = append(items, entry(verbStartAgent, "", "Start tunctl", true))
	}
	if v.Reached {
		items = append(items, section("sessions", sessionItems(v))...)
		items = append(items, section("hosts", hostItems(v))...)
	}
	items = append(items, separator("end"))
	if v.Can.Autostart {
		items = append(items, Item{
			ID: verbAutostart, Title: "Start at login", Enabled: true, Checkable: true, Checked: v.Autostart,
		})
	}
	items = append(items,
		entry(verbSettings, "", "Settings", true),
		entry(verbHelp, "", "Help", true),
		entry(verbQuit, "", quitTitle(v), true),
	)
	return Menu{Icon: iconFor(v), Tooltip: "tunctl: " + line, Items: items}
}

func entry(verb, name, title string, enabled bool) Item {
	id := verb
	if name != "" {
		id += ":" + name
	}
	return Item{ID: id, Title: title, Enabled: enabled}
}

func text(id, title string) Item { return Item{ID: id, Title: title} }

func separator(id string) Item { return Item{ID: "separator:" + id, Separator: true} }

// section puts a line above items, if there are any.
func section(id string, items []Item) []Item {
	if len(items) == 0 {
		return nil
	}
	return append([]Item{separator(id)}, items...)
}

// openItem is the entry most people come for: the page that is ready, a choice of
// several, or why there is none.
func openItem(v View) Item {
	ready := readyPages(v.Status)
	switch {
	case !v.Reached || len(v.Status.Sessions) == 0:
		return text(verbOpen, openTitle)
	case len(ready) == 0:
		return text(verbOpen, openTitle+" ("+words(foremost(v.Status.Sessions), v.Now)+")")
	case len(ready) == 1:
		return entry(verbOpen, "", openTitle, true)
	}
	choice := Item{ID: "choice", Title: openTitle, Enabled: true}
	for _, s := range ready {
		choice.Children = append(choice.Children, entry(verbPick, s.Name, s.Name, true))
	}
	return choice
}

// readyPages are the sessions with a page to open now, the most recent first.
func readyPages(st api.Status) []api.Session {
	ready := slices.DeleteFunc(slices.Clone(st.Sessions), func(s api.Session) bool { return !openable(s) })
	slices.SortStableFunc(ready, func(a, b api.Session) int { return b.Since.Compare(a.Since) })
	return ready
}

// openable reports whether a session has a page to open now.
func openable(s api.Session) bool { return s.State == api.SessionReady && s.URL != "" }

// sessionItems are the sessions, each with what can be done about it.
func sessionItems(v View) []Item {
	var items []Item
	for _, s := range v.Status.Sessions {
		up := s.State != api.SessionDown && s.State != api.SessionEnded && s.State != api.SessionFailed
		children := []Item{
			entry(verbOpen, s.Name, "Open", openable(s)),
			entry(verbCopy, s.Name, "Copy address", openable(s)),
			entry(verbLog, s.Name, "Show log", s.Job != nil),
			entry(verbUp, s.Name, "Bring up", !up || s.State == api.SessionNeedsLogin),
			entry(verbDown, s.Name, "Take down", up),
			cancelItem(s),
		}
		items = append(items, Item{ID: "session:" + s.Name, Title: sentence(s, v.Now), Enabled: true, Children: children})
	}
	return items
}

// cancelItem asks once more before it ends a job, in a menu of its own: that needs
// no dialog.
func cancelItem(s api.Session) Item {
	alive := s.Job != nil && !s.Job.State.Ended()
	title := "Yes, end the job"
	if alive {
		title = fmt.Sprintf("Yes, end job %s now", s.Job.ID)
	}
	return Item{
		ID: "cancel-ask:" + s.Name, Title: "Cancel job…", Enabled: alive,
		Children: []Item{entry(verbCancel, s.Name, title, alive)},
	}
}

// hostItems are the hosts, each with what can be done about it.
func hostItems(v View) []Item {
	var items []Item
	for _, h := range v.Status.Hosts {
		item := Item{ID: "host:" + h.Alias, Title: h.Alias + ": " + hostWords(h)}
		if v.Can.Login {
			item.Children = append(item.Children, entry(verbLogin, h.Alias, "Log in…", h.State != api.HostUp && h.State != api.HostConnecting))
		}
		if v.Can.Logout {
			item.Children = append(item.Children, entry(verbLogout, h.Alias, "Disconnect", h.State != api.HostDown))
		}
		item.Enabled = len(item.Children) > 0
		items = append(items, item)
	}
	return items
}

// quitTitle says that nothing ends with the icon.
func quitTitle(v View) string {
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
		return "Quit (" + up[0] + " stays up)"
	}
	return fmt.Sprintf("Quit (%d sessions stay up)", len(up))
}

// weight orders states by how much a person wants to hear of them.
var weight = map[api.SessionState]int{
	api.SessionNeedsLogin:   9,
	api.SessionFailed:       8,
	api.SessionReconnecting: 7,
	api.SessionReady:        6,
	api.SessionStarting:     5,
	api.SessionSubmitting:   4,
	api.SessionConnecting:   3,
	api.SessionQueued:       2,
	api.SessionEnded:        1,
}

// foremost is the session to speak of first; there is at least one.
func foremost(sessions []api.Session) api.Session {
	return slices.MaxFunc(sessions, func(a, b api.Session) int {
		return cmp.Or(cmp.Compare(weight[a.State], weight[b.State]), a.Since.Compare(b.Since), strings.Compare(b.Name, a.Name))
	})
}

// iconFor picks what the icon tells: what asks for a person first, then what is
// good, then what is under way.
func iconFor(v View) IconKind {
	if !v.Reached {
		return IconIdle
	}
	has := map[api.SessionState]bool{}
	working := false
	for _, s := range v.Status.Sessions {
		has[s.State] = true
		working = working || !s.State.Settled()
	}
	blocked := slices.ContainsFunc(v.Status.Hosts, func(h api.Host) bool { return h.State == api.HostBlocked })
	switch {
	case has[api.SessionNeedsLogin]:
		return IconNeedsYou
	case has[api.SessionFailed], blocked, v.Status.Config != nil:
		return IconTrouble
	case has[api.SessionReady]:
		return IconReady
	case working:
		return IconWorking
	}
	return IconIdle
}
