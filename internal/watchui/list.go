package watchui

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/words"
)

// listed is what the view shows: all of its kind that has the filter's text.
func (m *model) listed() listed {
	d := listed{usage: m.usage}
	switch m.view {
	case sessionsView, useView:
		d.sessions = keep(m.status.Sessions, func(s api.Session) bool {
			return (m.view == sessionsView || s.RunsJob()) && contains(sessionText(s, m.now), m.filter)
		})
	case jobsView:
		d.jobs = keep(m.jobs, func(j api.HostJob) bool {
			return contains(strings.Join([]string{j.ID, j.Name, words.Job(j.State), j.Node, j.Queue, j.Host, j.Reason, j.Hint}, " "), m.filter)
		})
	case hostsView:
		d.hosts = keep(m.status.Hosts, func(h api.Host) bool {
			return contains(strings.Join([]string{h.Alias, h.User, h.Hostname, words.Host(h), h.Cause}, " "), m.filter)
		})
	}
	return d
}

func keep[T any](list []T, want func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !want(x) })
}

func sessionText(s api.Session, now time.Time) string {
	parts := []string{s.Name, s.Host, words.Session(s, now), s.Cause}
	if s.Job != nil {
		parts = append(parts, s.Job.ID, s.Job.Name, s.Job.Node)
	}
	return strings.Join(parts, " ")
}

// contains reports whether a text contains another, in any case of letters.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// rows are the keys of the rows of the view: what stays chosen when others come and go.
func (m *model) rows() []string {
	d := m.listed()
	keys := lists.Map(d.sessions, func(s api.Session) string { return s.Name })
	keys = append(keys, lists.Map(d.jobs, func(j api.HostJob) string { return j.Host + " " + j.Ref() })...)
	keys = append(keys, lists.Map(d.hosts, func(h api.Host) string { return h.Alias })...)
	return keys
}

// row is the chosen row of n or, if that is gone, the first.
func (m *model) row() int { return max(0, slices.Index(m.rows(), m.chosen[m.view])) }

// only is the data of the chosen row alone.
func (m *model) only() listed {
	d, i := m.listed(), m.row()
	switch {
	case i < len(d.sessions):
		d.sessions = d.sessions[i : i+1]
	case i < len(d.jobs):
		d.jobs = d.jobs[i : i+1]
	case i < len(d.hosts):
		d.hosts = d.hosts[i : i+1]
	}
	return d
}

// move chooses another row.
func (m *model) move(k tea.KeyPressMsg) {
	if rows := m.rows(); len(rows) > 0 {
		m.chosen[m.view] = rows[moved(k, m.row(), m.bodyHeight()/2, len(rows)-1)]
	}
}

// target is what the chosen row is about.
func (m *model) target() target {
	if m.view == logView {
		return m.current(m.logOf)
	}
	d := m.only()
	switch {
	case len(d.sessions) > 0:
		return ofSession(d.sessions[0])
	case len(d.jobs) > 0:
		return m.ofJob(d.jobs[0])
	case len(d.hosts) > 0:
		return target{host: d.hosts[0].Alias}
	}
	return target{}
}

// current is a target as it is now.
func (m *model) current(t target) target {
	if t.session == nil {
		return t
	}
	if s, ok := m.status.Session(t.session.Name); ok {
		return ofSession(s)
	}
	return t
}

func ofSession(s api.Session) target { return target{session: &s, host: s.Host, job: s.Job} }

// ofJob is a job with the session that it belongs to, if any.
func (m *model) ofJob(j api.HostJob) target {
	t := target{host: j.Host, job: &j.Job}
	for _, s := range m.status.Sessions {
		if s.Host == j.Host && s.Job != nil && s.Job.Ref() == j.Ref() {
			t.session = &s
		}
	}
	return t
}
