package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// How many jobs and, with --summary, weeks are listed without --all.
const (
	historyShown = 20
	weeksShown   = 8
)

func historyCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "history",
		Usage:     "list past jobs of sessions: how they waited, ran and ended",
		ArgsUsage: "[SESSION]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: fmt.Sprintf("show all entries instead of the last %d, or %d weeks", historyShown, weeksShown)},
			&cli.BoolFlag{Name: "summary", Usage: "show the hours asked, used, idle and waited, by week"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invoke(t, atMost(1, "one session", showHistory)),
	}
}

func showHistory(ctx context.Context, inv *invocation) error {
	all, err := state.NewHistory(inv.paths.History()).Runs()
	if err != nil {
		return err
	}
	runs := slices.DeleteFunc(append([]api.Run{}, all...), func(r api.Run) bool { // [] if there are none
		return inv.NArg() > 0 && r.Session != inv.Args().First()
	})
	st, err := inv.status(ctx)
	if len(runs) == 0 && err == nil {
		st, err = inv.onlyNamed(st) // an unknown session has no past jobs either
	}
	if len(runs) == 0 && err != nil {
		return err
	}
	for _, s := range st.Sessions {
		if words.IsEnding(s) && (inv.NArg() == 0 || s.Name == inv.Args().First()) {
			inv.Say("job %s of %s is about to end: it is listed once its scheduler has ended it", s.Job.ID, s.Name)
		}
	}
	if inv.Bool("summary") {
		shown := map[string]bool{}
		weeks := slices.DeleteFunc(state.Summarize(runs), func(w api.WeekSummary) bool { // the newest is first
			shown[w.Week] = true
			return len(shown) > weeksShown && !inv.Bool("all")
		})
		return printPast(inv, weeks, show.Summary(weeks))
	}
	if !inv.Bool("all") {
		runs = runs[max(0, len(runs)-historyShown):]
	}
	return printPast(inv, runs, show.History(runs))
}

// printPast prints what is known about past jobs.
func printPast[T any](inv *invocation, list []T, table *term.Table) error {
	switch {
	case inv.Bool("json"):
		return inv.PrintIndentedJSON(list)
	case len(list) == 0:
		inv.Say("no job of a session has ended yet; `tunctl jobs --all` lists your other jobs")
		return nil
	}
	return inv.PrintTable(table)
}
