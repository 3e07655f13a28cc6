package detect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// otherPages are the web pages that the log announces besides the best candidate's, each
// with a short name: that of its app, or the app's name and a number.
func (e *evidence) otherPages(best *candidate, all []*candidate) []Finding {
	all = slices.Concat(all, e.otherCandidates())
	if e.rest != nil {
		all = slices.Concat(all, e.rest.candidates(), e.rest.otherCandidates())
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(appRank(a.App), appRank(b.App)) })
	shown, pages := []*candidate{}, []Finding{}
	count := map[string]int{}
	if best != nil {
		shown, count[best.App] = append(shown, best), 1
	}
	for _, c := range all {
		known := slices.ContainsFunc(shown, func(o *candidate) bool { return o == c || o.sameServer(c) })
		if known || !c.isPage() || len(pages) == maxOthers {
			continue
		}
		shown = append(shown, c)
		count[c.App]++
		c.Name = c.App
		if n := count[c.App]; n > 1 {
			c.Name += "-" + strconv.Itoa(n)
		}
		c.Why = strings.Join(c.reasons, "; ")
		pages = append(pages, c.Finding)
	}
	return pages
}

// otherCandidates are the servers besides those of their apps that count, the oldest first.
func (e *evidence) otherCandidates() []*candidate {
	all := make([]*candidate, len(e.others))
	for i, o := range e.others {
		c := newServerCandidate(e, o.app, o.server)
		if h := e.hintFor(o.app, c.ownPort()); h != nil && h.addr.port == c.ownPort() {
			c.hint = h
		}
		c.locate()
		c.describe()
		all[i] = c
	}
	return all
}

// isPage reports whether the candidate is a page that a server itself announced, and that
// is not known to have ended.
func (c *candidate) isPage() bool {
	return len(c.server.own) > 0 && !c.Ended && c.Link == "" && strings.HasPrefix(c.Scheme, "http") && (c.Port != 0 || c.Socket != "")
}

// sameServer reports whether two candidates are one server, which two forms of line
// announced.
func (c *candidate) sameServer(o *candidate) bool {
	named := !c.NeedsNode && !o.NeedsNode && c.Reach != api.ReachHere && o.Reach != api.ReachHere
	return c.Port == o.Port && c.Socket == o.Socket && (!named || c.Host == o.Host)
}
