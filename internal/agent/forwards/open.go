package forwards

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// Options are a session's settings for forwards that are opened now.
type Options struct {
	Name   string // of the session
	Local  int    // the wanted port of the main page, or 0
	Shared bool
	Hosts  []string // allowed in requests besides the names of this machine
	// LocalToken stands for the token of the main page; see [forward.ListenOptions].
	LocalToken func() string
	// Listen opens a listener on the host.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Waiting is called while a client waits for a target: with true for the user.
	Waiting func(person bool)
	Kept    *Kept // frees the ports that are wanted
	// Changed is called when a forward listens on the host, no longer listens, or was refused.
	Changed func()
	Log     *slog.Logger
}

// Open opens new forwards where they listened last, and serves them, all or none.
func (f *Set) Open(list []*Forward, last Ports, o Options) error {
	for i, x := range list {
		if err := f.open(x, last, o); err != nil {
			for _, x := range list[:i] {
				if x.Local != nil {
					_ = x.Local.Close()
				}
			}
			return err
		}
	}
	for _, x := range list {
		var ctx context.Context
		ctx, x.stop = context.WithCancel(f.ctx)
		f.done.Go(func() {
			defer x.stop()
			if err := x.serve(ctx); err != nil && !errors.Is(err, context.Canceled) {
				o.Log.Error("a part of the agent stopped", "part", "forward", "err", err)
			}
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, list...)
	// The other pages are last.
	slices.SortStableFunc(f.list, func(x, y *Forward) int { return strings.Compare(x.Page, y.Page) })
	return nil
}

func (x *Forward) serve(ctx context.Context) error {
	if x.remote != nil {
		return x.remote.Serve(ctx)
	}
	return x.Local.Serve(ctx)
}

func (f *Set) open(x *Forward, last Ports, o Options) (err error) {
	switch {
	case x.Page != "":
		if x.Local, err = f.listen(forward.ListenOptions{Last: last.Picked[x.Page]}, o); err != nil {
			return api.Errorf(api.CodeForward, "no local port for %s of %s: %w", x.Page, o.Name, err)
		}
	case x.IsPage:
		if x.Local, err = f.listen(forward.ListenOptions{Port: o.Local, Last: last.Page, LocalToken: o.LocalToken}, o); err != nil {
			return api.Errorf(api.CodeForward, "no local port for %s: %w", o.Name, err)
		}
	case x.Spec.Kind == api.ForwardRemote:
		x.remote = forward.NewRemote(forward.RemoteOptions{
			Name: o.Name, Listen: o.Listen,
			Network: Network(x.Spec.Listen), Address: x.Spec.Listen,
			LocalNetwork: Network(x.Spec.Target), LocalAddress: x.Spec.Target,
			Changed: o.Changed,
			Log:     o.Log,
		})
	default:
		at, err := listenOptions(x.Spec, last.Picked[x.Spec.String()])
		if err == nil {
			x.Local, err = f.listen(at, o)
		}
		if err != nil {
			return api.Errorf(api.CodeForward, "forward %s: %w", x.Spec, err)
		}
	}
	return nil
}

// listen opens a listener with the session's settings.
func (f *Set) listen(at forward.ListenOptions, o Options) (*forward.Forward, error) {
	o.Kept.releaseFor(o.Name, at.Port, at.Last)
	at.Name, at.Shared, at.Hosts, at.Ports, at.Waiting, at.Log = o.Name, o.Shared, o.Hosts, f.localPorts, o.Waiting, o.Log
	at.Dashboard = o.Kept.Dashboard
	return forward.Listen(at)
}

// listenOptions say where the forward of a spec listens; last is its port of the last time.
func listenOptions(spec configs.ForwardSpec, last int) (forward.ListenOptions, error) {
	o := forward.ListenOptions{Kind: spec.Kind}
	if Network(spec.Listen) == "unix" {
		o.UnixPath = spec.Listen
		return o, nil
	}
	bind, port, err := net.SplitHostPort(spec.Listen)
	if err != nil {
		return o, err
	}
	if spec.PicksPort() {
		o.Last = last
	}
	switch bind {
	case "127.0.0.1", "localhost": // the loopback pair, ::1 included, is the default
	case "":
		o.Bind = "*"
	default:
		o.Bind = bind
	}
	o.Port, err = strconv.Atoi(port)
	return o, err
}
