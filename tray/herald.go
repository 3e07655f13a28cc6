package tray

import (
	"time"

	"tunctl/internal/api"
)

// The kinds of notifications, as the config's notify names them.
const (
	kindReady      = "ready"
	kindNeedsLogin = "needs-login"
	kindTimeLimit  = "time-limit"
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
	// limitLead is how long before a job's time limit a person is told, at most.
	limitLead = 15 * time.Minute
)

// news is something a person may want to be told, and what they may want to do.
type news struct {
	kind        string
	title, body string
	urgent      bool
	verb, name  string // the action; the verb may be ""
}

// herald finds the news in a series of statuses. It keeps what it has told, so that
// nothing is told twice.
type herald struct {
	sessions map[string]*story
	asked    map[string]bool // hosts whose need of a login was told
}

// story is what is known of one session.
type story struct {
	state    api.SessionState
	left     time.Time // when it last left a settled state
	lost     time.Time // when its link was lost
	lostTold bool
	limit    time.Time // the time limit that was told
}

func newHerald() *herald {
	return &herald{sessions: map[string]*story{}, asked: map[string]bool{}}
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
		all = append(all, h.changes(s, old, wishes[s.Name], now)...)
		here[s.Name] = old
	}
	h.sessions = here
	return append(all, h.logins(st)...)
}

// changes tells what is new about a session, and brings its story up to date.
func (h *herald) changes(s api.Session, y *story, wished, now time.Time) []news {
	before := y.state
	y.state = s.State
	if before.Settled() && !s.State.Settled() {
		y.left = now
	}
	if s.State == api.SessionReconnecting {
		return y.linkLost(s, before, now)
	}
	var all []news
	if y.lostTold && s.State == api.SessionReady {
		all = append(all, news{kind: kindLink, title: s.Name + " is back", body: "The connection to " + s.Host + " is up again."})
	}
	wasLost := !y.lost.IsZero()
	y.lost, y.lostTold = time.Time{}, false
	if before != s.State {
		seen := now.Sub(y.left) < watched
		switch s.State {
		case api.SessionReady:
			if !wasLost && !seen && now.Sub(wished) >= wishLife {
				all = append(all, readyNews(s, now))
			}
		case api.SessionEnded, api.SessionFailed:
			if !seen || !wished.IsZero() { // the menu shows no steps: only this tells
				all = append(all, endedNews(s, now))
			}
		}
	}
	if due(s, y, now) {
		y.limit = s.Job.End
		all = append(all, news{
			kind: kindTimeLimit, title: s.Name + " ends in " + duration(s.Job.End.Sub(now)),
			body: "The job reaches its time limit at " + clock(s.Job.End, now) + ". Save your work.", urgent: true,
			verb: verbOpen, name: s.Name,
		})
	}
	return all
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
		body: s.Name + " is out of reach for now. The job is not affected; tunctl keeps trying.",
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

// due reports whether the time limit is near and was not told of. A short job is
// told of later: at a quarter of its time.
func due(s api.Session, y *story, now time.Time) bool {
	if s.State != api.SessionReady || s.Job == nil || !s.Job.End.After(now) || s.Job.End.Equal(y.limit) {
		return false
	}
	lead := limitLead
	if !s.Job.Start.IsZero() {
		lead = min(lead, s.Job.End.Sub(s.Job.Start)/4)
	}
	return s.Job.End.Sub(now) <= lead
}

// logins tells of hosts that need a person, once for each however many sessions
// wait for it.
func (h *herald) logins(st api.Status) []news {
	var all []news
	asked := map[string]bool{}
	for _, s := range st.Sessions {
		if s.State != api.SessionNeedsLogin || asked[s.Host] {
			continue
		}
		asked[s.Host] = true
		if !h.asked[s.Host] {
			all = append(all, news{
				kind: kindNeedsLogin, title: s.Host + " needs you to log in", body: brief(s.Cause), urgent: true,
				verb: verbLogin, name: s.Host,
			})
		}
	}
	h.asked = asked
	return all
}
