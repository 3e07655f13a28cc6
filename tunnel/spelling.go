package tunnel

import (
	"errors"
	"fmt"
	"net"

	"tunctl/internal/api"
)

// Spelling is what is known of a name that a person gave for a host.
type Spelling struct {
	Written bool   // the name is in the config or the ssh config, or was logged in to before
	Meant   string // the name that was probably meant; "" where none is near
}

// misspelled adds to a failed dial what the name was probably meant to be. A name that the
// name service does not have, and that is written nowhere or is nearly another, is not
// tried again.
func (t *attempt) misspelled(e *api.Error) *api.Error {
	name := t.host.name
	s := t.pool.o.Spelling(name)
	if s.Meant != "" {
		e.Hint = fmt.Sprintf("did you mean %s?", s.Meant)
	}
	dns, isDNS := errors.AsType[*net.DNSError](e)
	if s.Written && s.Meant == "" || !isDNS || !dns.IsNotFound || t.host.hasUsers() {
		return e
	}
	e.Code, e.Err = api.CodeUnknownHost, classPermanent.of(e.Err)
	e.Message = fmt.Sprintf("no host %q in the config, the ssh config or DNS", name)
	if s.Meant == "" {
		e.Hint = "`tunctl hosts` lists the hosts of the config; a name of an internal network may need the VPN"
	}
	return e
}

// hasUsers reports whether other hosts go through this one: their settings name it.
func (h *Host) hasUsers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.users) > 0
}
