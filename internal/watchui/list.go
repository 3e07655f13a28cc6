package watchui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"tunctl/internal/api"
)

// data is what the view shows: all of its kind that has the filter's text.
func (m *model) data() Data {
	d := Data{Usage: m.usage}
	switch m.view {
	case Sessions, Use:
		d.Sessions = keep(m.status.Sessions, func(s api.Session) bool {
			return (m.view == Sessions || s.RunsJob()) && contains(sessionWords(s), m.filter)
		})
	case Jobs:
		d.Jobs = keep(m.jobs, func(j api.HostJob) bool {
			return contains(strings.Join([]string{j.ID, j.Name, string(j.State), j.Node, j.Queue, j.Host, j.Reason, j.Hint}, " "), m.filter)
		})
	case Hosts:
		d.Hosts = keep(m.status.Hosts, func(h api.Host) bool {
			return contains(strings.Join([]string{h.Alias, h.User, h.Hostname, string(h.State), h.Cause}, " "), m.filter)
		})
	}
	return d
}

func keep[T any](list []T, want func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !want(x) })
}

func sessionWords(s api.Session) string {
	words := []string{s.Name, s.Host, string(s.State), s.Cause}
	if s.Job != nil {
		words = append(words, s.Job.ID, s.Job.Name, s.Job.Node)
	}
	return strings.Join(words, " ")
}

// contains reports whether a text contains another, in any case of letters.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// rows are the keys of the rows of the view: what stays chosen when others come and go.
func (m *model) rows() []string {
	d := m.data()
	var keys []string
	for _, s := range d.Sessions {
		keys = append(keys, s.Name)
	}
	for _, j := range d.Jobs {
		keys = append(keys, j.Host+" "+j.Ref())
	}
	for _, h := range d.Hosts {
		keys = append(keys, h.Alias)
	}
	return keys
}

// row is the chosen row of n or, if that is gone, the first.
func (m *model) row() int { return max(0, slices.Index(m.rows(), m.chosen[m.view])) }

// only is the data of the chosen row alone.
func (m *model) only() Data {
	d, i := m.data(), m.row()
	switch {
	case i < len(d.Sessions):
		d.Sessions = d.Sessions[i : i+1]
	case i < len(d.Jobs):
		d.Jobs = d.Jobs[i : i+1]
	case i < len(d.Hosts):
		d.Hosts = d.Hosts[i : i+1]
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
	if m.view == Log {
		return m.current(m.logOf)
	}
	d := m.only()
	switch {
	case len(d.Sessions) > 0:
		return ofSession(d.Sessions[0])
	case len(d.Jobs) > 0:
		return m.ofJob(d.Jobs[0])
	case len(d.Hosts) > 0:
		return target{host: d.Hosts[0].Alias}
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
