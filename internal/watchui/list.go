package watchui

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/show"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// row is a session, a job or a host in a list, and what a key acts on.
type row struct {
	key     string                                    // what stays chosen when other rows come and go; "": there is no row
	host    string                                    // its alias
	session *api.Session                              // also that of a job
	job     *api.Job                                  // also that of a session
	details func(l term.Layout, now time.Time) string // all that is known about it
}

// list has the rows of a view.
type list struct {
	rows  []row
	table *term.Table
	above []string // what is wrong with hosts, above their sessions
}

// list is what the view lists: all of its kind that have the filter's text.
func (m *model) list() list {
	switch m.view {
	case jobsView:
		jobs := found(m.jobs, m.filter, func(j api.HostJob) []string {
			return []string{j.ID, j.Name, words.Job(j.State), j.Node, j.Queue, j.Host, j.Reason, j.Hint}
		})
		return list{rows: lists.Map(jobs, m.jobRow), table: show.Jobs(jobs, true, m.now)}
	case hostsView:
		hosts := found(m.status.Hosts, m.filter, func(h api.Host) []string {
			return []string{h.Alias, h.User, h.Hostname, words.Host(h), h.Cause}
		})
		return list{rows: lists.Map(hosts, hostRow), table: show.Hosts(hosts, nil, m.now)}
	}
	sessions := found(m.status.Sessions, m.filter, func(s api.Session) []string {
		texts := []string{s.Name, s.Host, words.Session(s, m.now), s.Cause}
		if s.Job != nil {
			texts = append(texts, s.Job.ID, s.Job.Name, s.Job.Node)
		}
		return texts
	})
	if m.view == sessionsView {
		text, rest := show.SharedCauses(m.layout(0), sessions)
		above := strings.Split(text, "\n")
		return list{lists.Map(sessions, m.sessionRow), show.Sessions(rest, m.now), above[:min(len(above)-1, m.bodyHeight()/3)]}
	}
	running := slices.DeleteFunc(sessions, func(s api.Session) bool { return !s.RunsJob() })
	return list{rows: lists.Map(running, m.sessionRow), table: show.Use(running, m.usage, m.now)}
}

// found are the items that have a text.
func found[T any](all []T, text string, texts func(T) []string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !contains(strings.Join(texts(x), " "), text) })
}

// contains reports whether a text contains another, in any case of letters.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

func (m *model) sessionRow(s api.Session) row {
	if list := m.usage[s.Name]; len(list) > 0 {
		s.Usage = &list[len(list)-1]
	}
	details := func(l term.Layout, now time.Time) string { return show.SessionPage(l, s, now) }
	return row{key: s.Name, host: s.Host, session: &s, job: s.Job, details: details}
}

// jobRow is a job with the session that it belongs to, if any.
func (m *model) jobRow(j api.HostJob) row {
	details := func(l term.Layout, now time.Time) string { return show.JobPage(l, j, now) }
	r := row{key: j.Host + " " + j.Ref(), host: j.Host, job: &j.Job, details: details}
	for _, s := range m.status.Sessions {
		if s.Host == j.Host && s.Job != nil && s.Job.Ref() == j.Ref() {
			r.session = &s
		}
	}
	return r
}

func hostRow(h api.Host) row {
	details := func(l term.Layout, now time.Time) string { return show.HostPage(l, h, now) }
	return row{key: h.Alias, host: h.Alias, details: details}
}

// query asks for the log of a session or, of a job without one, of the job.
func (r row) query() api.LogQuery {
	switch {
	case r.session != nil:
		return api.LogQuery{Session: r.session.Name, Follow: true, Lines: true}
	case r.job != nil:
		return api.LogQuery{Host: r.host, Job: r.job.Ref(), Follow: true, Lines: true}
	}
	return api.LogQuery{}
}

// cursor is what is chosen and shown of a list.
type cursor struct {
	key   string // of the chosen row
	first int    // the first row that is shown
}

// index is the chosen row or, if that is gone, the first.
func (c cursor) index(rows []row) int {
	return max(0, slices.IndexFunc(rows, func(r row) bool { return r.key == c.key }))
}

// move chooses another row.
func (c *cursor) move(k tea.KeyPressMsg, rows []row, page int) {
	if len(rows) > 0 {
		c.key = rows[moved(k, c.index(rows), page, len(rows)-1)].key
	}
}

// target is what a key acts on: the chosen row or, of the log, what that is of, as it is now.
func (m *model) target() row {
	if m.view == logView {
		if s := m.logOf.session; s != nil {
			if now, ok := m.status.Session(s.Name); ok {
				return m.sessionRow(now)
			}
		}
		return m.logOf
	}
	rows := m.list().rows
	if len(rows) == 0 {
		return row{}
	}
	return rows[m.cursors[m.view].index(rows)]
}
