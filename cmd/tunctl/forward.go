package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/lists"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func forwardCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "forward",
		Usage:     "forward ports through a host or to a job, temporarily",
		ArgsUsage: "HOST|SESSION [SPEC...]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bind", Usage: "listen on `ADDR` instead of loopback; * for all interfaces"},
			&cli.BoolFlag{Name: "remove", Usage: "end these forwards of a session"},
			waitFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: invokeInterruptible(t, forwardPorts),
	}
}

func forwardPorts(ctx context.Context, inv *invocation) error {
	if inv.NArg() == 0 {
		return usagef("forward takes a session or a host, and a port, as in `tunctl forward jupyter 6006` or `tunctl forward narval 5432:db.int:5432`")
	}
	st, err := inv.status(ctx)
	if err != nil {
		return err
	}
	cfg := readConfig(inv.paths)
	to := parseDestination(cfg, st, inv.Args().First())
	if inv.NArg() == 1 && to.Session != "" && !inv.Bool("remove") {
		return offerListeners(ctx, inv, to.Session)
	}
	if inv.NArg() == 1 {
		return usagef("forward takes a port, too, as in `tunctl forward narval 5432:db.int:5432`; without one it lists what listens inside the job of a session")
	}
	req := api.ForwardRequest{Host: to.Host, Specs: inv.Args().Tail(), Bind: inv.String("bind"), Remove: inv.Bool("remove")}
	switch {
	case to.Node != "":
		return usagef("forward takes a host or a session, not a node: write \"9000:NODE:9000\" for a port of another node of the job, with the name of the node")
	case req.Remove && to.Session == "":
		var names []string
		for _, s := range st.Sessions {
			if _, configured := cfg.Session(s.Name); !configured && s.Host == to.Host && s.Job == nil && len(s.Forwards) > 0 {
				names = append(names, s.Name)
			}
		}
		return usagef("--remove is for the forwards of a session: `tunctl down %s` ends those through a host", cmp.Or(strings.Join(names, " "), "NAME"))
	case show.OpenToOthers(req.Bind) && !req.Remove:
		inv.Say("! listening on %s: anyone who can reach this computer can use the forward", req.Bind)
	}
	if to.Session != "" {
		req.Host, req.Session = "", to.Session
		return forwardSession(ctx, inv, req)
	}
	u := newForward(inv, req)
	if err := u.start(ctx, false); err != nil {
		return inv.withNearSession(inv.Args().First(), err)
	}
	if !u.json {
		inv.Say("`tunctl down %s` stops forwarding", u.name)
	}
	return nil
}

// newForward is an up of forwards through a host.
func newForward(inv *invocation, req api.ForwardRequest) *up {
	u := newUp(inv)
	u.request = func(ctx context.Context) (api.UpResponse, error) {
		r, err := u.client.Forward(ctx, req)
		return r.UpResponse, err
	}
	return u
}

// forwardSession forwards ports to the job of a session that is up.
func forwardSession(ctx context.Context, inv *invocation, req api.ForwardRequest) error {
	res, err := inv.client.Forward(ctx, req)
	if errors.Is(err, client.ErrNotRunning) {
		return downError(inv.lastKnown(readConfig(inv.paths)), req.Session)
	}
	if req.Remove && api.HasCode(err, api.CodeUsage) && hintOf(err) == "" {
		st, _ := inv.client.Status(ctx)
		s, _ := st.Session(req.Session)
		added := slices.DeleteFunc(s.Forwards, func(f api.Forward) bool { return !f.Added })
		list := lists.Map(added, func(f api.Forward) string { return show.Forward(f, show.JobPlace(s)) })
		return api.ReplaceHint(err, "forwarded: %s", cmp.Or(strings.Join(list, ", "), "nothing but what is in the config"))
	}
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		return inv.PrintJSON(upLine{Type: "session", Session: &res.Session})
	}
	s := res.Session
	if req.Remove {
		for _, f := range res.Forwards {
			inv.Say("%s is closed", f.Listen)
		}
		return nil
	}
	for _, f := range res.Forwards {
		if f.Note != "" {
			inv.Say("! %s", f.Note)
		}
		inv.Say("  %s", show.Forward(f, show.JobPlace(s)))
		fmt.Fprintln(inv.Out, f.Listen)
	}
	if len(res.Forwards) > 0 && s.State != api.SessionReady && !s.RunsJob() {
		inv.Say("%s is %s%s: connections wait until its job runs", s.Name, s.State, show.Because(s.Cause))
	}
	if slices.ContainsFunc(res.Forwards, func(f api.Forward) bool { return f.Added }) { // else they are in the config
		specs := strings.Join(req.Specs, " ")
		if req.Bind != "" {
			specs += " --bind " + req.Bind
		}
		inv.Say("`tunctl forward %s --remove %s` stops forwarding, and so does `tunctl down %s`", s.Name, specs, s.Name)
	}
	return nil
}

// listener is a port inside a job on which a program of the user's listens.
type listener struct {
	Port    int    `json:"port"`
	Program string `json:"program,omitempty"` // "": not known
	Local   string `json:"local,omitempty"`   // the address here that leads there; "": none
}

// listenersScript prints a line for each port on which a program of the user's listens: the port, in
// hexadecimal, and the program.
//
//go:embed listeners.sh
var listenersScript string

// offerListeners lists what listens inside a session's job, and offers to forward it.
func offerListeners(ctx context.Context, inv *invocation, session string) error {
	s, err := inv.sessionInside(ctx, session)
	if err != nil {
		return err
	}
	out, err := runInside(ctx, inv, session, listenersScript)
	if err != nil {
		return err
	}
	list := readListeners(out, s)
	if inv.Bool("json") {
		return inv.PrintJSON(list)
	}
	if len(list) == 0 {
		inv.Say("no program of yours listens inside the job of %s", session)
		return nil
	}
	table := &term.Table{Header: []string{"PORT", "PROGRAM", "FORWARDED"}}
	var others []string
	for _, l := range list {
		table.Add(nil, term.Cell{Text: strconv.Itoa(l.Port)}, term.Cell{Text: l.Program}, term.Cell{Text: l.Local})
		if l.Local == "" {
			others = append(others, strconv.Itoa(l.Port))
		}
	}
	if err := inv.PrintTable(table); err != nil || len(others) == 0 || !inv.Interactive {
		return err
	}
	answer, err := inv.ReadLine(ctx, fmt.Sprintf("Forward which ports (%s; Enter for none)? ", strings.Join(others, ", ")), true)
	specs := strings.FieldsFunc(answer, func(r rune) bool { return r == ' ' || r == ',' })
	if err != nil || len(specs) == 0 {
		return err
	}
	for _, spec := range specs {
		if !slices.Contains(others, spec) {
			return usagef("%q is not one of these ports", spec)
		}
	}
	return forwardSession(ctx, inv, api.ForwardRequest{Session: session, Specs: specs, Bind: inv.String("bind")})
}

// readListeners reads what listenersScript printed.
func readListeners(out string, s api.Session) []listener {
	list := []listener{}
	for line := range strings.Lines(out) {
		port, program, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "tunctl-listens "), " ")
		number, err := strconv.ParseUint(port, 16, 16)
		l := listener{Port: int(number), Program: api.Sanitize(program), Local: localOf(s, int(number))}
		at, known := slices.BinarySearchFunc(list, l.Port, func(l listener, port int) int { return l.Port - port })
		own := l.Program == "tunctl" // the forwards themselves, where the node is this computer
		if err == nil && !known && !own && strings.HasPrefix(line, "tunctl-listens ") {
			list = slices.Insert(list, at, l)
		}
	}
	return list
}

// localOf is the address here that leads to a port inside the session's job; "": none does.
func localOf(s api.Session, port int) string {
	for _, f := range s.Forwards {
		if _, p, err := net.SplitHostPort(f.Target); err == nil && p == strconv.Itoa(port) && f.Kind == api.ForwardLocal {
			return f.Listen
		}
	}
	return ""
}
