package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/show"
)

// maxVariants is how many variants of a job --dry-run asks about: each is a question to the
// scheduler.
const maxVariants = 4

// dryRun is one `tunctl up --dry-run`: what would be submitted, what it would cost, and when it
// would start.
type dryRun struct {
	*invocation
	session  string
	variants []api.Choices
}

// newDryRun reads the variants from --with NAME=VALUE,VALUE and --again.
func newDryRun(inv *invocation, session string) (*dryRun, error) {
	d := &dryRun{invocation: inv, session: session, variants: []api.Choices{{}}}
	if inv.String("as") != "" {
		return nil, usagef("--as is for a job that is submitted, and --dry-run submits none")
	}
	answers, err := answersOf(inv.Context)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		var more []api.Choices
		for _, earlier := range d.variants {
			for value := range strings.SplitSeq(answers[name], ",") {
				with := maps.Clone(earlier)
				with[name] = value
				more = append(more, with)
			}
		}
		d.variants = more
	}
	if len(d.variants) > maxVariants {
		return nil, usagef("%d variants are too many: each is a question to the scheduler, and at most %d are asked at a time", len(d.variants), maxVariants)
	}
	return d, nil
}

// run asks, and prints what is known.
func (d *dryRun) run(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	if d.Bool("again") {
		if err := d.addRecent(ctx); err != nil {
			return err
		}
	}
	var list []api.Preview
	d.progress(0)
	err := d.client.Preview(ctx, api.PreviewRequest{Session: d.session, With: d.variants}, func(p api.Preview) {
		list = append(list, p)
		d.Draw("")
		if d.Bool("json") {
			_ = d.PrintJSON(p) // an error ends ctx
		}
		d.progress(len(list))
	})
	d.Draw("")
	switch {
	case err != nil:
		return err
	case len(list) < len(d.variants):
		return api.Errorf(api.CodeAgent, "the agent has stopped").WithHint("`tunctl agent log` shows why")
	case d.Bool("json"):
	case len(list) == 1:
		show.Preview(d.Out, list[0], time.Now())
		if s, _ := readConfig(d.paths).Session(d.session); s.Builtin() != "" {
			d.Say("`tunctl script %s` prints the job script", d.session)
		}
	default:
		show.Previews(d.Out, list, time.Now())
	}
	return refusal(list)
}

// variantTakes is how long the answer about one of several variants takes: a scheduler is asked
// once in ten seconds.
const variantTakes = 12 * time.Second

// progress says which variant is asked about, and first how long all will take.
func (d *dryRun) progress(done int) {
	n := len(d.variants)
	if n > 1 && done == 0 {
		d.Say("… asking the scheduler about %d variants, one after the other: up to %s", n, api.DurationText(time.Duration(n)*variantTakes))
	}
	switch {
	case done >= n:
	case n == 1:
		d.Draw("asking the scheduler…")
	default:
		d.Draw(fmt.Sprintf("asking about variant %d of %d (%s)…", done+1, n, d.variants[done]))
	}
}

// connect connects to the session's host.
func (d *dryRun) connect(ctx context.Context) error {
	st, err := d.ensureAgent(ctx)
	if err != nil {
		return err
	}
	s, ok := st.Session(d.session)
	if s.MayHaveLiveJob(time.Now()) {
		d.Say("job %s of %s is already %s: `tunctl up %s` uses it and submits nothing", s.Job.ID, s.Name, s.Job.State, s.Name)
	}
	if !ok || isConnected(st, s.Host) { // the agent says what is wrong with the name
		return nil
	}
	return d.login(ctx, s.Host, api.KeepNot)
}

// addRecent adds the last choices to all variants, which have precedence.
func (d *dryRun) addRecent(ctx context.Context) error {
	known, err := d.client.Choices(ctx, d.session, false)
	if err != nil {
		return err
	}
	if len(known.Recent) == 0 {
		return api.Errorf(api.CodeUsage, "session %s has no earlier choices to repeat", d.session)
	}
	for i, with := range d.variants {
		d.variants[i] = maps.Clone(known.Recent[0])
		maps.Copy(d.variants[i], with)
	}
	return nil
}

// refusal is the error if the scheduler would accept none of the variants.
func refusal(list []api.Preview) error {
	switch {
	case slices.ContainsFunc(list, func(p api.Preview) bool { return p.Refused == "" }):
		return nil
	case len(list) == 1:
		return api.Errorf(api.CodeSubmit, "%s", list[0].Refused)
	}
	return api.Errorf(api.CodeSubmit, "the scheduler would accept none of these")
}
