package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

func extendCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "extend",
		Usage:     "ask the scheduler for more time for a session's running job",
		ArgsUsage: "[SESSION] TIME",
		Description: "TIME is how much longer the job may run: 30m, 2h, 1h30m, or 1:30:00 as for sbatch and qsub.\n\n" +
			"Many sites let only their staff extend a job that runs; what the scheduler says is shown as it is.\n" +
			"Then save your work: `tunctl up` starts a new job after this one, and with keep = true in the\n" +
			"session's config the next one is queued in time by itself.\n\n" +
			"  tunctl extend 2h\n" +
			"  tunctl extend jupyter 1h30m",
		Action: func(c *cli.Context) error { return extend(c, t) },
	}
}

func extend(c *cli.Context, t *terminal) error {
	words := c.Args().Slice()
	if len(words) == 0 || len(words) > 2 {
		return usagef("extend takes a session and how much longer it may run, such as `tunctl extend jupyter 1h`")
	}
	by, err := parseSpan(words[len(words)-1])
	if err != nil {
		return err
	}
	p, err := paths(c)
	if err != nil {
		return err
	}
	name := words[0]
	if len(words) == 1 {
		if name, err = onlySession(p); err != nil {
			return err
		}
	}
	t.draw("asking the scheduler…")
	job, err := client.New(p).Extend(c.Context, name, by)
	t.draw("")
	if err != nil {
		return err
	}
	t.say("%s job %s runs%s", t.paint(green, "✓"), job.ID, untilText(&job, time.Now()))
	return nil
}

// parseSpan reads 90m, 1h30m or H:MM:SS; a number alone could be anything.
func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if strings.Contains(text, ":") {
		d, err = parseClock(text)
	}
	if err != nil || d <= 0 {
		return 0, &api.Error{
			Code: api.CodeUsage, Message: fmt.Sprintf("%q is not a time", text),
			Hint: "such as 30m, 2h, 1h30m or 1:30:00",
		}
	}
	return d, nil
}

// parseClock reads H:MM or H:MM:SS.
func parseClock(text string) (time.Duration, error) {
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	parts := strings.Split(text, ":")
	if len(parts) > len(units) {
		return 0, strconv.ErrSyntax
	}
	var total time.Duration
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * units[i]
	}
	return total, nil
}
