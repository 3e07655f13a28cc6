package tray

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

// The kinds of notifications, as the config's notify names them.
const (
	kindReady      = "ready"
	kindNeedsLogin = string(api.NoticeNeedsLogin)
	kindTimeLimit  = string(api.NoticeTimeLimit)
	kindEnded      = "ended"
	kindLink       = "link"
)

const (
	// watched is how long a person who brought a session up is taken to be still
	// looking: what happens meanwhile they see for themselves.
	watched = 15 * time.Second
	// wishLife is how long a page that was asked for in the menu opens by itself.
	wishLife = time.Minute
	// linkPatience is how long a lost link is nobody's business.
	linkPatience = time.Minute
)

// news is something a person may want to be told, and what they may want to do.
type news struct {
	kind        string
	title, body string
	urgent      bool
	soon        bool      // a login will be needed, and is not yet
	limit       time.Time // the job's time limit that this is about
	name        string    // the session or host this is about
	verbs       []string  // what can be done about it, the likeliest first
	instead     string    // how else that is done
}

// tag names what the news is about: later news of the same replaces it.
func (n news) tag() string {
	if n.kind == "" {
		return ""
	}
	return n.kind + ":" + n.name
}

// herald finds the news in a series of statuses. It keeps what it has told, so that
// nothing is told twice.
type herald struct {
	sessions map[string]*story
	asked    map[string]bool      // hosts whose need of a login was told
	attended map[string]time.Time // hosts a person was just busy with elsewhere, and when
	standing map[string]news      // what was told and still holds, by tag
}

// story is what is known of one session.
type story struct {
	state    api.SessionState
	left     time.Time // when it last left a settled state
	lost     time.Time // when its link was lost
	lostTold bool
	served   string // which life of which job was last seen ready
}

func newHerald() *herald {
	return &herald{
		sessions: map[string]*story{}, asked: map[string]bool{},
		attended: map[string]time.Time{}, standing: map[string]news{},
	}
}

// hear returns what is new in st. The first hearing of a session is no news, but
// for a login that is needed: after a start of the computer that is the news.
// Wishes are the sessions that were brought up from the menu, and when.
func (h *herald) hear(st api.Status, wishes map[string]time.Time, now time.Time) []news {
	var all []news
	here := map[string]*story{}
	for _, s := range st.Sessions {
		old, known := h.sessions[s.Name]
		if !known {
			old = &story{state: s.State, left: s.Since}
		}
		all = append(all, h.changes(s, old, wishes[s.Name], disconnected(st, s.Host), now)...)
		here[s.Name] = old
	}
	h.sessions = here
	return append(all, h.logins(st, now)...)
}

// attend notes that a person answers, or would not answer, a host's questions: what
// comes of it they see for themselves.
func (h *herald) attend(host string, now time.Time) { h.attended[host] = now }

// told remembers news that was shown, for outdated.
func (h *herald) told(n news) {
	if tag := n.tag(); tag != "" {
		h.standing[tag] = n
	}
}

// outdated returns the tags of what was told and holds no longer, once.
func (h *herald) outdated(st api.Status) []string {
	var tags []string
	for tag, n := range h.standing {
		if !n.holds(st) {
			tags = append(tags, tag)
			delete(h.standing, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// holds reports whether the news is still as it was told.
func (n news) holds(st api.Status) bool {
	if n.soon {
		return slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == n.name && h.State == api.HostUp })
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
		return found && s.Job != nil && !s.Job.State.Ended() && s.Job.End.Sub(n.limit) < time.Minute
	case kindLink:
		return found && !s.State.Settled()
	}
	return true
}

// disconnected reports whether a person has logged out of a host.
func disconnected(st api.Status, host string) bool {
	return slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == host && h.State == api.HostDown })
}

// changes tells what is new about a session, and brings its story up to date. A link
// that a person has cut is no news.
func (h *herald) changes(s api.Session, y *story, wished time.Time, cut bool, now time.Time) []news {
	before := y.state
	y.state = s.State
	if before.Settled() && !s.State.Settled() {
		y.left = now
	}
	if s.State == api.SessionReconnecting && cut {
		y.lost, y.lostTold = now, false
		return nil
	}
	if s.State == api.SessionReconnecting {
		return y.linkLost(s, before, now)
	}
	var all []news
	if y.lostTold && s.State == api.SessionReady {
		all = append(all, backNews(s))
	}
	y.lost, y.lostTold = time.Time{}, false
	if before != s.State {
		seen := now.Sub(y.left) < watched
		switch s.State {
		case api.SessionReady:
			// The same one again is no news: the link or the agent was away.
			if !seen && y.served != life(s) && now.Sub(wished) >= wishLife {
				all = append(all, readyNews(s, now))
			}
		case api.SessionEnded, api.SessionFailed:
			if !s.Asked && (!seen || !wished.IsZero()) { // the menu shows no steps: only this tells
				all = append(all, endedNews(s))
			}
		}
	}
	switch s.State {
	case api.SessionReady:
		y.served = life(s)
	case api.SessionDown, api.SessionEnded, api.SessionFailed:
		y.served = ""
	}
	return all
}

// life names what a session serves from: a job, between two requeues.
func life(s api.Session) string {
	if s.Job == nil {
		return "no job"
	}
	return fmt.Sprint(s.Job.ID, " ", s.Job.Restarts, " ", s.Job.Node)
}

// linkLost tells of a link that stays away.
func (y *story) linkLost(s api.Session, before api.SessionState, now time.Time) []news {
	if before != api.SessionReconnecting || y.lost.IsZero() {
		y.lost = now
	}
	if y.lostTold || now.Sub(y.lost) < linkPatience {
		return nil
	}
	y.lostTold = true
	n := news{kind: kindLink, title: headline("No connection to ", s.Host, ""), name: s.Name, body: "tunctl reconnects automatically."}
	if jobAlive(s, now) {
		n.body = "The job of " + s.Name + " keeps running. " + n.body
	}
	return []news{n}
}

func backNews(s api.Session) news {
	n := news{kind: kindLink, title: headline("", s.Name, " is connected again"), name: s.Name}
	return n.withOpen(s)
}

func readyNews(s api.Session, now time.Time) news {
	n := news{kind: kindReady, title: headline("", s.Name, " is ready"), name: s.Name}
	if s.Job != nil && s.Job.End.After(now) {
		n.body = "It runs until " + clock(s.Job.End, now) + " (" + timeLeft(s, now) + ")."
	}
	return n.withOpen(s)
}

// withOpen offers to open the session's page, if it has one.
func (n news) withOpen(s api.Session) news {
	if openable(s) {
		n.verbs, n.instead = []string{verbOpen}, "Open it from the tray menu."
	}
	return n
}

func endedNews(s api.Session) news {
	n := news{kind: kindEnded, name: s.Name, body: noteBody(s.Cause, s.Name, s.Host)}
	if s.State == api.SessionFailed {
		n.title, n.verbs, n.instead = headline("", s.Name, " failed"), []string{verbTrouble}, "The tray menu shows what went wrong."
		return n
	}
	n.title, n.verbs, n.instead = headline("", s.Name, " has ended"), []string{verbUp}, "Start it again from the tray menu."
	if s.Job != nil {
		n.verbs = append(n.verbs, verbLog)
	}
	return n
}

// noticeNews is what the agent wants a person to know: a title, and after a colon more.
func noticeNews(n api.Notice, st api.Status) news {
	told := news{kind: string(n.Kind), name: cmp.Or(n.Session, n.Host)}
	title, body, _ := strings.Cut(n.Text, ": ")
	if word, _, _ := strings.Cut(title, " "); word != told.name {
		title = sentenceCase(title)
	}
	told.title, told.body = headline("", title, ""), noteBody(body)
	if told.title != title { // which was cut
		told.body = noteBody(n.Text, told.name)
	}
	s, found := st.Session(n.Session)
	switch {
	case n.Kind == api.NoticeNeedsLogin:
		told.soon, told.urgent = true, true
	case n.Kind == api.NoticeTimeLimit && found && s.Job != nil:
		told.urgent, told.limit = true, s.Job.End
		if s.Next == nil && s.Job.State == api.JobRunning {
			told.verbs = []string{verbExtend}
		}
	case told.name == "": // of the config
		if first, rest, ok := strings.Cut(n.Text, "; "); ok {
			told.title, told.body = headline("", sentenceCase(first), ""), noteBody(rest)
		}
		told.verbs, told.instead = []string{verbSettings}, "Edit the config from the tray menu."
	}
	return told
}

// noteBody writes words of ours for a notification: a sentence, short, without commands.
func noteBody(text string, names ...string) string {
	return asSentence(shorten(plain(text), 160), names...)
}

// logins tells of hosts that need a person, once for each however many sessions
// wait for it.
func (h *herald) logins(st api.Status, now time.Time) []news {
	var all []news
	asked := map[string]bool{}
	for _, s := range st.Sessions {
		if s.State != api.SessionNeedsLogin || s.Asked || asked[s.Host] {
			continue
		}
		asked[s.Host] = true
		if !h.asked[s.Host] && now.Sub(h.attended[s.Host]) >= watched {
			all = append(all, loginNews(s))
		}
	}
	h.asked = asked
	return all
}

func loginNews(s api.Session) news {
	why := strings.TrimPrefix(s.Cause, s.Host+" needs you: ")
	if rest, ok := strings.CutPrefix(why, "it "); ok {
		why = s.Host + " " + rest
	}
	why = noteBody(why, s.Host)
	return news{
		kind: kindNeedsLogin, title: headline("Log in to ", s.Host, ""), urgent: true,
		body: strings.TrimSpace(why + " " + s.Name + " waits for it."),
		name: s.Host, verbs: []string{verbLogin}, instead: "Log in from the tray menu.",
	}
}
