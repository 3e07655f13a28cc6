package detect

// suit is the evidence about one app, sorted by what it is worth.
type suit struct {
	app   string
	run   *run
	hint  *sighting // the best hint about this app
	here  *sighting // a reverse tunnel's port on the login node
	taken func(port int) bool
	end   *sighting

	display *sighting // own URL with a name
	wild    *sighting // own URL with every address
	local   *sighting // own URL with the loopback
	blank   *sighting // own URL with a word in place of the host, or none
	socket  *sighting
	link    *sighting // a URL of the instructions
}

// newSuit gathers the evidence about app.
func newSuit(e *evidence, app string) *suit {
	c := &suit{app: app, run: e.runs[app], taken: e.isTaken}
	if c.run == nil {
		c.run = &run{}
	}
	if e.here != nil && e.appOfHere() == app {
		c.here = e.here
	}
	for i := range c.run.own {
		c.sort(&c.run.own[i])
	}
	for i := range c.run.links {
		c.sortLink(&c.run.links[i])
	}
	c.hint = e.hintFor(app, c.ownPort())
	c.end = c.run.ended
	if c.end == nil && len(c.run.own) == 0 {
		c.end = e.jobEnd
	}
	return c
}

// sort puts one of the server's own URLs in its place; the first of a kind wins,
// since servers print the address meant for others before their own.
func (c *suit) sort(s *sighting) {
	slot := &c.blank
	switch {
	case s.to.socket != "":
		slot = &c.socket
	case s.to.place() == named:
		slot = &c.display
	case s.to.place() == wildcard:
		slot = &c.wild
	case s.to.place() == loopback:
		slot = &c.local
	}
	if *slot == nil {
		*slot = s
	}
}

// sortLink takes a link of the instructions: with a name of its own it is as good
// as the server's own URL, as where a site prints it in the server's place.
func (c *suit) sortLink(s *sighting) {
	if s.to.place() == named && len(c.run.own) == 0 {
		c.sort(s)
		return
	}
	if c.link == nil || !c.link.to.hasRealToken() && s.to.hasRealToken() {
		c.link = s
	}
}

// ownPort is the port the server itself tells, or 0.
func (c *suit) ownPort() int {
	for _, s := range []*sighting{c.local, c.wild, c.display} {
		if s != nil && s.to.port != 0 {
			return s.to.port
		}
	}
	return 0
}

// empty reports whether nothing here says that there is a server. A link to the
// person's own machine counts only with a token that could be one.
func (c *suit) empty() bool {
	if c.socket != nil || c.here != nil || c.display != nil || c.wild != nil || c.local != nil || c.blank != nil || c.hint != nil {
		return false
	}
	return c.link == nil || c.link.to.port == 0 || !c.link.to.hasRealToken()
}

// seq is when the server was last heard of.
func (c *suit) seq() int {
	last := 0
	for _, s := range []*sighting{c.display, c.wild, c.local, c.blank, c.socket, c.hint, c.here, c.link} {
		if s != nil {
			last = max(last, s.seq)
		}
	}
	return last
}

// displayLies reports whether the displayed URL was made up: the local URL beside
// it tells another port.
func (c *suit) displayLies() bool {
	return c.display != nil && c.local != nil && c.display.to.port != c.local.to.port
}

// tellers are those who may tell the token, the best first.
func (c *suit) tellers(best *sighting) []*sighting {
	tellers := []*sighting{best}
	for i := range c.run.own {
		tellers = append(tellers, &c.run.own[i])
	}
	if c.link != nil {
		tellers = append(tellers, c.link)
	}
	return tellers
}

// lastStart is when the server was last said to be there.
func (c *suit) lastStart() int {
	if len(c.run.own) > 0 {
		return c.run.own[0].seq
	}
	return c.seq()
}

func firstOf(all ...*sighting) *sighting {
	for _, s := range all {
		if s != nil {
			return s
		}
	}
	return nil
}
