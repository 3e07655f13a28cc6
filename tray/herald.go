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
	verb, name  string    // the action, and the session or host this is about; the verb may be ""
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
		all = append(all, news{kind: kindLink, title: s.Name + " is back", body: "The connection to " + s.Host + " is up again.", name: s.Name})
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
				all = append(all, endedNews(s, now))
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
	return []news{{
		kind: kindLink, title: "No connection to " + s.Host,
		body: s.Name + " is out of reach for now. The job is not affected; tunctl keeps trying.", name: s.Name,
	}}
}

func readyNews(s api.Session, now time.Time) news {
	n := news{kind: kindReady, title: sentence(s, now), name: s.Name}
	if openable(s) {
		n.verb, n.body = verbOpen, s.URL
	}
	return n
}

func endedNews(s api.Session, now time.Time) news {
	n := news{kind: kindEnded, title: sentence(s, now), body: s.Hint, name: s.Name}
	if s.Job != nil {
		n.verb = verbLog
	}
	return n
}

// noticeNews is what the agent wants a person to know.
func noticeNews(n api.Notice, st api.Status) news {
	title, body, _ := strings.Cut(n.Text, ": ")
	told := news{kind: string(n.Kind), title: title, body: sentenceCase(body), name: cmp.Or(n.Session, n.Host)}
	if n.Kind == api.NoticeNeedsLogin {
		told.soon, told.urgent = true, true
		return told
	}
	s, found := st.Session(n.Session)
	if n.Kind != api.NoticeTimeLimit || !found || s.Job == nil {
		return told
	}
	told.urgent, told.limit = true, s.Job.End
	if s.Next == nil && s.Job.State == api.JobRunning {
		told.verb = verbExtend
	}
	return told
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
			all = append(all, news{
				kind: kindNeedsLogin, title: s.Host + " needs you to log in", urgent: true,
				body: sentenceCase(brief(strings.TrimPrefix(s.Cause, s.Host+" needs you: "))),
				verb: verbLogin, name: s.Host,
			})
		}
	}
	h.asked = asked
	return all
}
