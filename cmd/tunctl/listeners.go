package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/internal/term"
)

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
	list, err := listeners(ctx, inv, session)
	if err != nil {
		return err
	}
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

// listeners are the ports inside a session's job on which the user's programs listen.
func listeners(ctx context.Context, inv *invocation, session string) ([]listener, error) {
	s, err := inv.sessionInside(ctx, session)
	if err != nil {
		return nil, err
	}
	req, err := inv.destination(ctx, session)
	if err != nil {
		return nil, err
	}
	conn, err := dialGateway(ctx, inv, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	out, err := outputOf(conn, posixsh.Script, listenersScript)
	if err != nil {
		return nil, exitOf(session, err)
	}
	return readListeners(out, s), nil
}

// readListeners reads what listenersScript printed.
func readListeners(out string, s api.Session) []listener {
	list := []listener{}
	for line := range strings.Lines(out) {
		port, program, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "tunctl-listens "), " ")
		number, err := strconv.ParseUint(port, 16, 16)
		l := listener{Port: int(number), Program: api.Sanitize(program), Local: localOf(s, int(number))}
		at, known := slices.BinarySearchFunc(list, l.Port, func(l listener, port int) int { return l.Port - port })
		if err == nil && !known && strings.HasPrefix(line, "tunctl-listens ") {
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
