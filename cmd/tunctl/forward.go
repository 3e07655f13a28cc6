package main

import (
	"context"
	"net/netip"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
)

func forwardCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "forward",
		Usage:     "forward ports over a host for now; the agent keeps them up",
		ArgsUsage: "HOST SPEC...",
		Description: "SPEC is written as for ssh -L, -R and -D, with the letter in front:\n\n" +
			"    5432:db.int:5432         port 5432 here leads to db.int:5432 as the host sees it\n" +
			"    8080:/run/app.sock       … to a unix socket there; a path here listens on a socket\n" +
			"    R:9000:localhost:9000    port 9000 there leads to port 9000 here\n" +
			"    D:1080                   a SOCKS5 proxy here; names are looked up on the host\n\n" +
			"The forwards are listed in `tunctl status` and come back by themselves after a lost link or a\n" +
			"restart; `tunctl down NAME` ends them. For good, write them into the config: forward = [\"…\"].\n" +
			"Other users of this computer are refused, unless --bind or an address before the port opens it to them.\n\n" +
			"  tunctl forward narval 5432:db.int:5432",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bind", Usage: "listen on `ADDR` instead of this computer alone; * is everywhere"},
			waitFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: func(c *cli.Context) error { return forward(c, t) },
	}
}

func forward(c *cli.Context, t *terminal) error {
	if c.NArg() < 2 {
		return usagef("forward takes a host and what to forward, as in `tunctl forward narval 5432:db.int:5432`")
	}
	p, err := paths(c)
	if err != nil {
		return err
	}
	req := api.ForwardRequest{Host: c.Args().First(), Specs: c.Args().Tail(), Bind: c.String("bind")}
	if isOpenToOthers(req.Bind) {
		t.say("! listening on %s: whoever reaches this computer reaches what is behind it", req.Bind)
	}
	u := &up{term: t, json: c.Bool("json"), wait: c.Duration("wait")}
	u.begin = func(ctx context.Context) (api.UpResponse, error) { return u.client.Forward(ctx, req) }
	if err := u.run(c.Context, p, false); err != nil {
		return err
	}
	if !u.json {
		t.say("`tunctl down %s` ends it", u.name)
	}
	return nil
}

// isOpenToOthers reports whether others than this computer can reach an address.
func isOpenToOthers(bind string) bool {
	addr, err := netip.ParseAddr(bind)
	return bind != "" && bind != "localhost" && (err != nil || !addr.IsLoopback())
}
