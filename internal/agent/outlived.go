package agent

import (
	"fmt"

	"tunctl/internal/api"
)

// named reports whether the config, and nothing else, names the session.
func (s *session) named() bool { return !s.attached && !s.adhoc }

// outlived says of a session that is up, and that the config no longer has, how
// long it stays. Reloading the config never takes one down.
func (s *session) outlived(now api.Session) api.Session {
	if s.named() && now.Hint == "" {
		now.Hint = fmt.Sprintf("the session is no longer in the config: `tunctl down %s` removes it", s.name)
	}
	return now
}

// letGo lets go of a session that was taken down and that nothing names any more,
// and reports whether it did.
func (a *Agent) letGo(s *session) bool {
	if !s.named() {
		a.forget(s)
		return true
	}
	if _, configured := a.configured(s.name); configured {
		return false
	}
	a.unlist(s) // what is remembered of it stays: its job is found again should the config name it again
	return true
}

// letGoOfOutlived lets go of the sessions that are down and no longer in the config. One
// that is just being brought up or taken down is seen to there.
func (a *Agent) letGoOfOutlived() {
	for _, s := range a.live() {
		if !s.named() || !s.acting.TryLock() {
			continue
		}
		if s.status().State == api.SessionDown {
			a.letGo(s)
		}
		s.acting.Unlock()
	}
}

// unlist takes a session that is down off the list, and says so unless the config
// has one of its name.
func (a *Agent) unlist(s *session) {
	a.mu.Lock()
	_, configured := a.config.Session(s.name)
	delete(a.sessions, s.name)
	a.mu.Unlock()
	if configured {
		return // saved meanwhile: it is down, and not gone
	}
	gone := s.status()
	a.hub.publish(api.Event{Type: api.EventSessionGone, Session: &gone})
}

// enlist puts a session that is brought up on the list, should it just have been
// taken off.
func (a *Agent) enlist(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, listed := a.sessions[s.name]; !listed {
		a.sessions[s.name] = s
	}
}
