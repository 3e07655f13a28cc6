package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func forwardCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "forward",
		Usage:     "forward ports through a host temporarily",
		ArgsUsage: "HOST SPEC...",
		Description: "SPEC is written as for ssh -L, -R and -D, with the letter in front:\n\n" +
			"    5432:db.int:5432         port 5432 here goes to db.int:5432, as seen from the host\n" +
			"    8080:/run/app.sock       … to a unix socket there; a path before : is a socket here\n" +
			"    R:9000:localhost:9000    port 9000 on the host goes to port 9000 here\n" +
			"    D:1080                   a SOCKS5 proxy here; the host resolves names\n\n" +
			"The agent keeps the forwards up, also after a lost connection or a restart, until `tunctl down NAME`.\n" +
			"`tunctl status` lists them. For permanent forwards, use forward = [\"…\"] in the config. Other users\n" +
			"of this computer are refused, unless --bind or an address before the port lets them in.\n\n" +
			"  tunctl forward narval 5432:db.int:5432",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bind", Usage: "listen on `ADDR` instead of loopback; * for all interfaces"},
			waitFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: action(t, forwardPorts),
	}
}

func forwardPorts(ctx context.Context, inv *invocation) error {
	if inv.NArg() < 2 {
		return usagef("forward takes a host and a forward, as in `tunctl forward narval 5432:db.int:5432`")
	}
	req := api.ForwardRequest{Host: inv.Args().First(), Specs: inv.Args().Tail(), Bind: inv.String("bind")}
	if isOpenToOthers(req.Bind) {
		inv.Say("! listening on %s: anyone who can reach this computer can use the forward", req.Bind)
	}
	u := &up{term: inv.Terminal, json: inv.Bool("json"), wait: inv.Duration("wait")}
	u.request = func(ctx context.Context) (api.UpResponse, error) { return u.client.Forward(ctx, req) }
	if err := u.start(ctx, inv.paths, false); err != nil {
		return err
	}
	if !u.json {
		inv.Say("`tunctl down %s` stops forwarding", u.name)
	}
	return nil
}

// forwardText says what a forward connects.
func forwardText(f api.Forward, host string) string {
	switch f.Kind {
	case api.ForwardRemote:
		return fmt.Sprintf("%s on %s goes to %s on this machine", f.Listen, host, f.Target)
	case api.ForwardDynamic:
		return fmt.Sprintf("%s on this machine is a SOCKS5 proxy; connections leave from %s", f.Listen, host)
	}
	name, port, err := net.SplitHostPort(f.Target)
	if addr, e := netip.ParseAddr(name); err == nil && (name == "localhost" || e == nil && addr.IsLoopback()) {
		return fmt.Sprintf("%s on this machine goes to port %s on %s", f.Listen, port, host)
	}
	if err != nil { // a socket
		return fmt.Sprintf("%s on this machine goes to %s on %s", f.Listen, f.Target, host)
	}
	return fmt.Sprintf("%s on this machine goes to %s, as seen from %s", f.Listen, f.Target, host)
}

// isOpenToOthers reports whether others than this computer can reach an address.
func isOpenToOthers(bind string) bool {
	addr, err := netip.ParseAddr(bind)
	return bind != "" && bind != "localhost" && (err != nil || !addr.IsLoopback())
}
