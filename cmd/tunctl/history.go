package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// historyShown is how many jobs are listed without --all.
const historyShown = 20

func historyCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "history",
		Usage:     "list past jobs: how long they waited and ran, and why they ended",
		ArgsUsage: "[SESSION]",
		Description: "The newest is last. The agent records each job that it sees end, on this machine; the oldest\n" +
			"entries are dropped.\n\n" +
			"  tunctl history\n" +
			"  tunctl history jupyter --all",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "all", Usage: fmt.Sprintf("show all entries instead of the last %d", historyShown)},
		},
		Action: action(t, showHistory),
	}
}

func showHistory(_ context.Context, inv *invocation) error {
	if err := inv.atMostOne("session"); err != nil {
		return err
	}
	all, err := state.NewHistory(inv.paths.History()).Runs()
	if err != nil {
		return err
	}
	runs := []api.Run{}
	for _, r := range all {
		if inv.NArg() == 0 || r.Session == inv.Args().First() {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		if err := checkSession(inv); err != nil {
			return err
		}
	}
	if !inv.Bool("all") {
		runs = runs[max(0, len(runs)-historyShown):]
	}
	switch {
	case inv.Bool("json"):
		return inv.PrintIndentedJSON(runs)
	case len(runs) == 0:
		inv.Say("no job has ended yet")
		return nil
	}
	_, err = fmt.Fprint(inv.Out, historyTable(runs).Draw(term.LayoutFor(inv.Out)))
	return err
}

// checkSession refuses an unknown session, which has no past jobs either.
func checkSession(inv *invocation) error {
	st, err := inv.status()
	if err != nil {
		return err
	}
	_, err = inv.onlyNamed(st)
	return err
}

func historyTable(runs []api.Run) *term.Table {
	h := &term.Table{Header: []string{"SESSION", "JOB", "STARTED", "WAITED", "RAN", "NODE", "END"}, Whole: []string{"JOB", "STARTED", "END"}, Optional: "NODE"}
	for _, r := range runs {
		end := term.Cell{Text: string(r.Job.State)}
		var notes []string
		switch r.Job.State {
		case api.JobFinished, api.JobTimeout, api.JobCancelled:
		default:
			end.Colour = term.Red
			notes = append(notes, r.Why)
		}
		h.Add(notes, term.Cell{Text: r.Session, Colour: term.Bold}, term.Cell{Text: r.Job.ID}, term.Cell{Text: startedText(r.Job.Start)},
			term.Cell{Text: spanText(r.Waited())}, term.Cell{Text: spanText(r.Ran())}, term.Cell{Text: orDash(r.Job.Node)}, end)
	}
	return h
}
