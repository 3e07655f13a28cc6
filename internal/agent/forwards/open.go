package forwards

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/sshconfig"
)

// Options are a session's settings for forwards that are opened now.
type Options struct {
	// ListenOptions are those of the main page. Other listeners have neither its port nor its local token.
	forward.ListenOptions
	Last Ports // where forwards listened last
	// Listen opens a listener on the host.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Kept   *Kept // frees the ports that are wanted
	// Changed is called when a forward listens on the host, no longer listens, or was refused.
	Changed func()
}

// Open opens new forwards where they listened last, and serves them, all or none.
func (f *Set) Open(list []*Forward, o Options) error {
	for i, x := range list {
		if err := f.open(x, o); err != nil {
			for _, x := range list[:i] {
				if x.Local != nil {
					_ = x.Local.Close()
				}
			}
			return err
		}
	}
	for _, x := range list {
		serve := x.Local.Serve
		if x.remote != nil {
			serve = x.remote.Serve
		}
		var ctx context.Context
		ctx, x.stop = context.WithCancel(f.ctx)
		f.done.Go(func() {
			defer x.stop()
			if err := serve(ctx); err != nil && !errors.Is(err, context.Canceled) {
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

func (f *Set) open(x *Forward, o Options) (err error) {
	at, what := o.ListenOptions, "no local port for "+o.Name
	at.Last, at.Ports = o.Last.Page, f.localPorts
	if !x.IsPage || x.Page != "" {
		at.Port, at.LocalToken = 0, nil
	}
	switch {
	case x.Page != "":
		at.Last, what = o.Last.Picked[x.Page], fmt.Sprintf("no local port for %s of %s", x.Page, o.Name)
	case x.IsPage:
	case x.Spec.Kind == api.ForwardRemote:
		x.remote = forward.NewRemote(forward.RemoteOptions{
			Name: o.Name, Listen: o.Listen,
			Network: Network(x.Spec.Listen), Address: x.Spec.Listen,
			LocalNetwork: Network(x.Spec.Target), LocalAddress: x.Spec.Target,
			Changed: o.Changed,
			Log:     o.Log,
		})
		return nil
	default:
		at.Last, what = o.Last.Picked[x.Spec.String()], fmt.Sprintf("forward %s", x.Spec)
		err = setListen(&at, x.Spec)
	}
	if err == nil {
		o.Kept.Release(o.Name, at.Port, at.Last)
		x.Local, err = forward.Listen(at)
	}
	if err != nil {
		return api.Errorf(api.CodeForward, "%s: %w", what, err)
	}
	return nil
}

// setListen sets where the forward of a spec listens.
func setListen(o *forward.ListenOptions, spec configs.ForwardSpec) error {
	o.Kind = spec.Kind
	if !spec.PicksPort() {
		o.Last = 0
	}
	if Network(spec.Listen) == "unix" {
		o.UnixPath = spec.Listen
		return nil
	}
	bind, port, err := net.SplitHostPort(spec.Listen)
	if err != nil {
		return err
	}
	switch bind {
	case "127.0.0.1", "localhost": // the loopback pair, ::1 included, is the default
	case "":
		o.Bind = "*"
	default:
		o.Bind = bind
	}
	o.Port, err = strconv.Atoi(port)
	return err
}

// FromSSHConfig are the forwards of a host in the user's ssh_config.
func FromSSHConfig(host string, settings sshconfig.Settings) ([]configs.ForwardSpec, error) {
	var specs []configs.ForwardSpec
	var errs []error
	add := func(kind api.ForwardKind, lines []string) {
		for _, line := range lines {
			spec, err := parse(kind, line)
			specs, errs = append(specs, spec), append(errs, err)
		}
	}
	add(api.ForwardLocal, settings.LocalForwards)
	add(api.ForwardRemote, settings.RemoteForwards)
	add(api.ForwardDynamic, settings.DynamicForwards)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, api.Errorf(api.CodeConfig, "no forwards for %s in the ssh config", host).
			WithHint(`add LocalForward lines there, or set forward = ["5432:db.int:5432"] in the config`)
	}
	return specs, nil
}

// parse reads "8080 [db.int]:80", as ssh -G prints a forward.
func parse(kind api.ForwardKind, line string) (configs.ForwardSpec, error) {
	words := strings.Fields(line)
	if len(words) == 0 || len(words) > 2 {
		return configs.ForwardSpec{}, fmt.Errorf("ssh config: cannot read forward %q", line)
	}
	spec := configs.ForwardSpec{Kind: kind, Listen: words[0]}
	if _, err := strconv.Atoi(words[0]); err == nil {
		spec.Listen = net.JoinHostPort("localhost", words[0])
	}
	if len(words) == 2 {
		host, port, err := net.SplitHostPort(words[1])
		if err != nil {
			spec.Target = words[1] // a socket
		} else {
			spec.Target = net.JoinHostPort(host, port)
		}
	}
	return spec, nil
}
