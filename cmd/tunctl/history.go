package main

import (
	"cmp"
	"fmt"
	"time"

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
		Action: func(c *cli.Context) error { return showHistory(c, t) },
	}
}

func showHistory(c *cli.Context, t *term.Terminal) error {
	if c.NArg() > 1 {
		return usagef("unexpected argument %q: history takes one session", c.Args().Get(1))
	}
	p, err := paths(c)
	if err != nil {
		return err
	}
	all, err := state.NewHistory(p.History()).Runs()
	if err != nil {
		return err
	}
	runs := []api.Run{}
	for _, r := range all {
		if c.NArg() == 0 || r.Session == c.Args().First() {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		if err := checkAsked(c, t); err != nil {
			return err
		}
	}
	if !c.Bool("all") {
		runs = runs[max(0, len(runs)-historyShown):]
	}
	switch {
	case c.Bool("json"):
		return t.PrintIndentedJSON(runs)
	case len(runs) == 0:
		t.Say("no job has ended yet")
		return nil
	}
	_, err = fmt.Fprint(t.Out, historyTable(runs).Draw(term.LayoutFor(t.Out)))
	return err
}

// checkAsked tells a session without past jobs from an unknown one.
func checkAsked(c *cli.Context, t *term.Terminal) error {
	st, err := currentStatus(c, t)
	if err != nil {
		return err
	}
	_, err = onlyAsked(c, st)
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
		h.Add(notes, term.Cell{Text: r.Session, Colour: term.Bold}, term.Cell{Text: r.Job.ID}, term.Cell{Text: dayText(r.Job.Start)},
			term.Cell{Text: spanText(r.Waited())}, term.Cell{Text: spanText(r.Ran())}, term.Cell{Text: orDash(r.Job.Node)}, end)
	}
	return h
}

func dayText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("Mon 2 Jan 15:04")
}

func spanText(d time.Duration, known bool) string {
	if !known {
		return "-"
	}
	return api.DurationText(d)
}

func orDash(text string) string { return cmp.Or(text, "-") }
