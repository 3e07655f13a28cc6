package tray

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/show"
	"tunctl/internal/words"
)

// The kinds of notifications, as the config's notify names them.
const (
	kindReady      = "ready"
	kindNeedsLogin = string(api.NoticeNeedsLogin)
	kindTimeLimit  = string(api.NoticeTimeLimit)
	kindIdle       = string(api.NoticeIdle)
	kindConfig     = string(api.NoticeConfig)
	kindEnded      = "ended"
	kindLink       = "link"
)

const (
	// watchedFor is how long the user is assumed to watch a session that they started:
	// what happens meanwhile needs no notification.
	watchedFor = 15 * time.Second
	// autoOpenWithin is how long after a start from the menu the page opens automatically.
	autoOpenWithin = time.Minute
	// urgentWithin is how long before its job's end a notification stays until then.
	urgentWithin = 15 * time.Minute
	// linkLostAfter is how long a link may be lost without a notification.
	linkLostAfter = time.Minute
)

// notification is the content of a notification.
type notification struct {
	kind        string
	title, body string
	icon        iconKind // "": none of a state
	urgent      bool
	soon        bool      // a login will be needed, but is not yet
	limit       time.Time // the time limit of the job that this is about
	job         string    // the job that this is about
	idle        bool      // until the job is used again
	name        string    // the session or host that this is about
	verbs       []verb    // what the user can do about it, the most likely first
	instead     string    // the same in words, with where else it can be done
}

// tag identifies the subject: a later one of the same subject replaces it.
func (n notification) tag() string { return n.kind + ":" + cmp.Or(n.name, n.title+" "+n.body) }

// tracker finds what is worth a notification in a series of statuses. It remembers what was shown, so that
// nothing is shown twice.
type tracker struct {
	sessions map[string]*trackedSession
	logins   map[string]bool         // hosts whose login was asked for
	attended map[string]time.Time    // hosts whose prompts a user just answered elsewhere or declined, and when: what follows is no news
	current  map[string]notification // what was shown and still holds, by tag
}

// trackedSession is what the tracker knows about one session.
type trackedSession struct {
	state     api.SessionState
	left      time.Time // when it last left a settled state
	lost      time.Time // when its link was lost
	lostShown bool
	served    string // the jobRun that was last ready
}

func newTracker() *tracker {
	return &tracker{
		sessions: map[string]*trackedSession{}, logins: map[string]bool{},
		attended: map[string]time.Time{}, current: map[string]notification{},
	}
}

// update returns what is new in st. A session that is seen for the first time is not
// notified about, unless it needs a login: after a start of the computer that is what counts.
// Requested are the sessions that were started from the menu, and when.
func (t *tracker) update(st api.Status, requested map[string]time.Time, now time.Time) []notification {
	var all []notification
	sessions := map[string]*trackedSession{}
	for _, s := range st.Sessions {
		old, known := t.sessions[s.Name]
		if !known {
			old = &trackedSession{state: s.State, left: s.Since}
		}
		loggedOut := hostIs(st, s.Host, api.HostDown)
		all = append(all, old.update(s, requested[s.Name], loggedOut, now)...)
		sessions[s.Name] = old
	}
	t.sessions = sessions
	return append(all, t.newLogins(st, now)...)
}

// shown remembers a notification that was shown, for outdated.
func (t *tracker) shown(n notification) { t.current[n.tag()] = n }

// outdated returns, once, the tags of what was shown and holds no longer.
func (t *tracker) outdated(st api.Status) []string {
	var tags []string
	for tag, n := range t.current {
		if !n.holds(st) {
			tags = append(tags, tag)
			delete(t.current, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// holds reports whether the notification is still true.
func (n notification) holds(st api.Status) bool {
	if n.soon {
		return hostIs(st, n.name, api.HostUp)
	}
	if n.kind == kindNeedsLogin {
		return slices.ContainsFunc(st.Sessions, func(s api.Session) bool {
			return s.Host == n.name && s.State == api.SessionNeedsLogin
		})
	}
	s, found := st.Session(n.name)
	switch n.kind {
	case kindReady:
		return found && s.State == api.SessionReady
	case kindEnded:
		return found && (s.State == api.SessionEnded || s.State == api.SessionFailed)
	case kindTimeLimit:
		return found && s.HasLiveJob() && s.Job.End.Sub(n.limit) < time.Minute
	case kindLink:
		return found && !s.State.Settled()
	case kindConfig:
		return st.Config != nil
	case kindIdle:
		return found && s.Job != nil && s.Job.ID == n.job && !s.Job.State.Ended() && (s.Idle || !n.idle) && (n.limit.IsZero() || s.IdleEnd.Equal(n.limit))
	}
	return true
}

func hostIs(st api.Status, host string, state api.HostState) bool {
	return slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == host && h.State == state })
}

// update returns what is new about a session. A link that the user has cut does not count.
func (t *trackedSession) update(s api.Session, requested time.Time, cut bool, now time.Time) []notification {
	before := t.state
	t.state = s.State
	if before.Settled() && !s.State.Settled() {
		t.left = now
	}
	if s.State == api.SessionReconnecting && cut {
		t.lost, t.lostShown = now, false
		return nil
	}
	if s.State == api.SessionReconnecting {
		return t.linkLost(s, before, now)
	}
	var all []notification
	if t.lostShown && s.State == api.SessionReady {
		all = append(all, backNotification(s))
	}
	t.lost, t.lostShown = time.Time{}, false
	if before != s.State {
		seen := now.Sub(t.left) < watchedFor
		switch s.State {
		case api.SessionReady:
			// The same one again does not count: the link or the agent was away.
			if !seen && t.served != jobRun(s) && now.Sub(requested) >= autoOpenWithin {
				all = append(all, readyNotification(s, now))
			}
		case api.SessionEnded, api.SessionFailed:
			if !s.Asked && (!seen || !requested.IsZero()) { // the menu shows no steps
				all = append(all, endedNotification(s))
			}
		}
	}
	switch s.State {
	case api.SessionReady:
		t.served = jobRun(s)
	case api.SessionDown, api.SessionEnded, api.SessionFailed:
		t.served = ""
	}
	return all
}

// jobRun identifies what a session serves from: a job, between two requeues.
func jobRun(s api.Session) string {
	if s.Job == nil {
		return "no job"
	}
	return fmt.Sprint(s.Job.ID, " ", s.Job.Restarts, " ", s.Job.Node)
}

// linkLost returns the notification of a link that stays lost.
func (t *trackedSession) linkLost(s api.Session, before api.SessionState, now time.Time) []notification {
	if before != api.SessionReconnecting || t.lost.IsZero() {
		t.lost = now
	}
	if t.lostShown || now.Sub(t.lost) < linkLostAfter {
		return nil
	}
	t.lostShown = true
	n := notification{kind: kindLink, icon: iconWorking, title: headline("No connection to ", s.Host, ""), name: s.Name, body: "tunctl reconnects automatically."}
	if s.MayHaveLiveJob(now) {
		n.body = "The job of " + s.Name + " keeps running. " + n.body
	}
	return []notification{n}
}

func backNotification(s api.Session) notification {
	n := notification{kind: kindLink, icon: iconReady, title: headline("", s.Name, " is connected again"), name: s.Name}
	return n.withOpen(s)
}

func readyNotification(s api.Session, now time.Time) notification {
	n := notification{kind: kindReady, icon: iconReady, title: headline("", s.Name, " is ready"), name: s.Name}
	if s.Job != nil && s.Job.End.After(now) {
		n.body = "It runs until " + api.ClockText(s.Job.End, now) + " (" + show.TimeLeft(s, now) + ")."
	}
	return n.withOpen(s)
}

// withOpen offers to open the session's page, if it has one.
func (n notification) withOpen(s api.Session) notification {
	if openable(s) {
		n.verbs, n.instead = []verb{verbOpen}, "Open it from the tray menu."
	}
	return n
}

func endedNotification(s api.Session) notification {
	n := notification{kind: kindEnded, name: s.Name, body: noteBody(s.Cause, s.Name, s.Host)}
	if s.State == api.SessionFailed {
		n.icon, n.title, n.verbs, n.instead = iconTrouble, headline("", s.Name, " failed"), []verb{verbTrouble}, "The tray menu shows what went wrong."
		return n
	}
	n.title, n.verbs, n.instead = headline("", s.Name, " has ended"), []verb{verbUp}, "Start it again from the tray menu."
	if s.Job != nil {
		n.verbs = append(n.verbs, verbLog)
	}
	return n
}

// noticeNotification is a notice of the agent: a title, and more after a colon.
func noticeNotification(n api.Notice, st api.Status, now time.Time) notification {
	told := notification{kind: string(n.Kind), name: cmp.Or(n.Session, n.Host)}
	title, body, _ := strings.Cut(n.Text, ": ")
	if word, _, _ := strings.Cut(title, " "); word != told.name {
		title = words.Capital(title)
	}
	told.title, told.body = headline("", title, ""), noteBody(body)
	if told.title != title { // which was cut
		told.body = noteBody(n.Text, told.name)
	}
	s, found := st.Session(n.Session)
	switch {
	case n.Kind == api.NoticeNeedsLogin:
		told.icon, told.soon, told.urgent = iconNeedsYou, true, true
	case n.Kind == api.NoticeTimeLimit && found && s.Job != nil:
		told.icon, told.limit = iconNeedsYou, s.Job.End
		told.urgent = s.Job.End.Sub(now) < urgentWithin // an earlier one goes by itself
		if s.Next == nil && s.Job.State == api.JobRunning {
			told.verbs, told.instead = []verb{verbExtend}, "Extend it from the tray menu, if the site allows that."
		}
	case n.Kind == api.NoticeIdle && found && s.Job != nil:
		told.icon, told.idle, told.job, told.limit = iconCharged, s.Idle, s.Job.ID, s.IdleEnd
		told.verbs, told.instead = []verb{verbKeep, verbAskEnd}, "Keep it from the tray menu."
		if s.IdleEnd.IsZero() {
			told.title, told.instead = headline("", s.Name, " is idle"), "End the job from the tray menu."
		}
	case n.Kind == api.NoticeConfig:
		told.icon = iconTrouble
		if first, rest, ok := strings.Cut(n.Text, "; "); ok {
			told.title, told.body = headline("", words.Capital(first), ""), noteBody(rest)
		}
		told.verbs, told.instead = []verb{verbSettings}, "Edit the config from the tray menu."
	case n.Kind == "":
		told.name = "" // what it tells stays true, such as that a job is charged, and the next one tells something else
	}
	return told
}

// endQuestion asks whether a session's job is to be ended.
func endQuestion(s api.Session) notification {
	return notification{
		kind: kindIdle, icon: iconCharged, title: headline("End the job of ", s.Name, "?"), name: s.Name, job: s.Job.ID,
		body: "This ends " + s.LiveText() + " at once. What is not saved is lost.", verbs: []verb{verbKeep, verbEnd},
		instead: "The tray menu ends it, too.",
	}
}

// noteBody makes a text the body of a notification: a short sentence without commands.
func noteBody(text string, names ...string) string {
	return words.Sentence(show.Shorten(show.WithoutCommands(text), 160), names...)
}

// newLogins returns one notification for each host that needs a login, however many
// sessions wait for it.
func (t *tracker) newLogins(st api.Status, now time.Time) []notification {
	var all []notification
	logins := map[string]bool{}
	for _, s := range st.Sessions {
		if s.State != api.SessionNeedsLogin || s.Asked || logins[s.Host] {
			continue
		}
		logins[s.Host] = true
		if !t.logins[s.Host] && now.Sub(t.attended[s.Host]) >= watchedFor {
			all = append(all, loginNotification(s))
		}
	}
	t.logins = logins
	return all
}

func loginNotification(s api.Session) notification {
	why := strings.TrimPrefix(s.Cause, s.Host+" needs you: ")
	if rest, ok := strings.CutPrefix(why, "it "); ok {
		why = s.Host + " " + rest
	}
	why = noteBody(why, s.Host)
	return notification{
		kind: kindNeedsLogin, icon: iconNeedsYou, title: headline("Log in to ", s.Host, ""), urgent: true,
		body: strings.TrimSpace(why + " " + s.Name + " waits for it."),
		name: s.Host, verbs: []verb{verbLogin}, instead: "Log in from the tray menu.",
	}
}

// titleMost is how long a notification's title may be to be shown whole.
const titleMost = 40

// headline is a title with a name in it; a long name is cut.
func headline(before, name, after string) string {
	room := max(titleMost-utf8.RuneCountInString(before+after), 2)
	return before + show.Shorten(name, room) + after
}

// outboxSize is how many notifications may wait for a slow desktop.
const outboxSize = 32

// notifier shows and withdraws notifications.
type notifier interface {
	Notify(ctx context.Context, note desktop.Note) error
	Withdraw(ctx context.Context, tag string) error
}

// request has the notifier show or withdraw a notification.
type request func(ctx context.Context) error

// announce shows a notification, with buttons for what the user can do about it.
func (c *controller) announce(n notification) {
	// Few desktops show buttons at once, and some show none: the body says what to do, too.
	note := desktop.Note{Tag: n.tag(), Title: n.title, Body: strings.TrimSpace(n.body + " " + n.instead), Urgent: n.urgent}
	note.Icon = noteIcon(cmp.Or(n.icon, iconIdle))
	for _, v := range n.verbs {
		id := choice{verb: v, name: n.name}
		if v == verbEnd {
			id.part = n.job
		}
		note.Actions = append(note.Actions, desktop.Action{Label: v.button, Do: func() {
			select {
			case c.acts <- id:
			default: // more clicks than anybody can make
			}
		}})
	}
	c.enqueue(func(ctx context.Context) error {
		c.delivered[note.Tag] = true
		return c.notifier.Notify(ctx, note)
	})
}

// withdraw removes the notification of a tag.
func (c *controller) withdraw(tag string) {
	c.enqueue(func(ctx context.Context) error {
		delete(c.delivered, tag)
		return c.notifier.Withdraw(ctx, tag)
	})
}

// enqueue leaves a request to the notifier. It drops what does not fit: a slow desktop
// must not block the menu.
func (c *controller) enqueue(r request) {
	if c.notifier == nil {
		return
	}
	select {
	case c.outbox <- r:
	default:
		c.Log.Warn("the desktop does not take notifications")
	}
}

// deliverNotifications delivers one after the other, so that what is withdrawn was
// shown before.
func (c *controller) deliverNotifications(ctx context.Context) {
	for {
		select {
		case deliver := <-c.outbox:
			if err := deliver(ctx); err != nil && ctx.Err() == nil {
				c.Log.Warn("a notification failed", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
