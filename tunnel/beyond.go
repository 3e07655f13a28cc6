package tunnel

// Beyond is a compute node behind its login node: a host that is reached through
// another, whatever its own settings say of jumps, and, unless node says otherwise, by
// the same user. Nothing is dialled.
func (p *Pool) Beyond(host, node string) *Host {
	p.Host(host)
	name := host + "," + node
	return p.host(name, func() *Host {
		h := newHost(p, name)
		h.quiet, h.behind = true, host
		return h
	})
}
