// Package forwards has the forwards of one session: listeners on this computer or on its host,
// which stay open from its first start to its down, whatever its job does meanwhile. It is told
// what they lead to, and each that leads nowhere shows why. It looks for no page and decides no
// state.
package forwards

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/tunnel/forward"
)

// Set are a session's forwards: of the page of its job, if it has one; those of the config, and
// those that were added; and of the job's other pages that were opened. A nil *Set has none.
type Set struct {
	ctx    context.Context //nolint:containedctx // of the listeners: one may be added later
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu        sync.Mutex
	list      []*Forward
	connected bool // the host is connected
}

// Forward is one forward of a session: of a page of its job, or to a fixed target.
type Forward struct {
	IsPage bool
	Page   string              // the name of the page; "": the main one
	Spec   configs.ForwardSpec // of a fixed target
	Added  bool                // by the user, and in no config
	Local  *forward.Forward    // nil: it listens on the host, or was not opened yet
	remote *forward.Remote     // nil: it listens here
	target *forward.Target     // of Local; nil: withdrawn
	stop   context.CancelFunc
}

// Ports are the local ports that were picked: of the main page, 0 if it has none, and of the
// other pages and the forwards that listen on any free one.
type Ports struct {
	Page   int
	Picked map[string]int // by the name of the page, or by what the forward is written as
}

// Targets are what the forwards lead to. Those without a target show why.
type Targets struct {
	Connected bool                       // the host is
	Main      *forward.Target            // of the main page; nil: none
	Pages     map[string]*forward.Target // of the other pages, by name
	Fixed     forward.Dialer             // dials for forwards to fixed targets; nil: they wait
	Announced bool                       // all pages that the job announces are known
	Why       forward.Reason
}

// New returns forwards that end with ctx. Those in the list are served by the caller.
func New(ctx context.Context, list ...*Forward) *Set {
	f := &Set{list: list}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// Close closes the listeners and waits until their connections have ended.
func (f *Set) Close() {
	if f != nil {
		f.cancel()
		f.done.Wait()
	}
}

// all are the forwards of now.
func (f *Set) all() []*Forward {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

// OfPage is the forward of a page; nil if it has none.
func (f *Set) OfPage(name string) *Forward {
	return lists.Find(f.all(), func(x *Forward) bool { return x.IsPage && x.Page == name })
}

// To is the forward of a spec; nil if there is none.
func (f *Set) To(spec configs.ForwardSpec) *Forward {
	return lists.Find(f.all(), func(x *Forward) bool { return !x.IsPage && x.Spec == spec })
}

// Specs are the forwards to fixed targets, those of the config or those that were added.
func (f *Set) Specs(added bool) []configs.ForwardSpec {
	var specs []configs.ForwardSpec
	for _, x := range f.all() {
		if !x.IsPage && x.Added == added {
			specs = append(specs, x.Spec)
		}
	}
	return specs
}

// Status are the forwards with their counters.
func (f *Set) Status() []api.Forward {
	return lists.Map(f.all(), (*Forward).Status)
}

// Status reports what the forward is for, and what it has relayed.
func (x *Forward) Status() (st api.Forward) {
	if x.remote != nil {
		st = x.remote.Status()
	} else {
		st = x.Local.Status()
	}
	st.Target = cmp.Or(st.Target, x.Spec.Target) // that of a page is not known without the page
	st.Endpoint, st.Added = x.Page, x.Added
	return st
}

// Ports are the ports that were picked. Those that stand in for one in use are left out: that
// one is tried again at the next up.
func (f *Set) Ports() Ports {
	ports := Ports{Picked: map[string]int{}}
	for _, x := range f.all() {
		switch {
		case x.Local == nil || x.Local.Note() != "":
		case x.Page != "":
			ports.Picked[x.Page] = x.Local.Port()
		case x.IsPage:
			ports.Page = x.Local.Port()
		case x.Spec.PicksPort():
			ports.Picked[x.Spec.String()] = x.Local.Port()
		}
	}
	return ports
}

// localPorts are those that the forwards listen on here.
func (f *Set) localPorts() []int {
	var ports []int
	for _, st := range f.Status() {
		if at, err := netip.ParseAddrPort(st.Listen); err == nil && st.Kind == api.ForwardLocal {
			ports = append(ports, int(at.Port()))
		}
	}
	return ports
}

// HostListeners is the state of the forwards that listen on the host.
func (f *Set) HostListeners() facts.Listeners {
	var l facts.Listeners
	for _, x := range f.all() {
		switch {
		case x.remote == nil || x.remote.Err() == nil:
			l.Others = true
		case x.remote.Refused() != nil:
			l.Refused = append(l.Refused, fmt.Sprintf("forward %s was refused: %v", x.Spec, x.remote.Refused()))
		case l.Pending == "":
			l.Pending = "asking the host to listen for " + x.Spec.String()
		}
	}
	return l
}

// Remove ends the added forwards of these specs, and returns them as they were.
func (f *Set) Remove(specs []configs.ForwardSpec) []api.Forward {
	f.mu.Lock()
	defer f.mu.Unlock()
	removed := []api.Forward{}
	f.list = slices.DeleteFunc(f.list, func(x *Forward) bool {
		remove := x.Added && slices.Contains(specs, x.Spec)
		if remove {
			removed = append(removed, x.Status())
			x.stop()
		}
		return remove
	})
	return removed
}

// Lead leads the forwards to their targets; those without one show why. The listener of one on
// the host ends with the connection to the host, and is requested again after it.
func (f *Set) Lead(to Targets) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.list {
		switch {
		case x.remote == nil && x.Page != "" && to.Announced:
			x.lead(to, forward.Reason{
				Title: "Waiting for " + x.Page,
				Text:  fmt.Sprintf("The log of the job does not announce %s, or it has ended. This page opens when it is announced.", x.Page),
			})
		case x.remote == nil:
			x.lead(to, to.Why)
		case to.Connected && !f.connected:
			x.remote.Retry()
		}
	}
	f.connected = to.Connected
}

// lead leads the forward to its target; without one it shows why.
func (x *Forward) lead(to Targets, why forward.Reason) {
	target := x.targetOf(to)
	switch {
	case target == nil:
		x.Local.Withdraw(why)
	case x.target == nil || *x.target != *target:
		x.Local.Open(*target)
	}
	x.target = target
}

func (x *Forward) targetOf(to Targets) *forward.Target {
	switch {
	case x.IsPage && x.Page == "":
		return to.Main
	case x.IsPage:
		return to.Pages[x.Page]
	case to.Fixed == nil:
		return nil
	}
	return &forward.Target{Dialer: to.Fixed, Network: Network(x.Spec.Target), Address: x.Spec.Target}
}

// Network is the network of an address: a path is a unix socket.
func Network(address string) string {
	if strings.ContainsRune(address, '/') {
		return "unix"
	}
	return "tcp"
}
