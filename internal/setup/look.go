package setup

import (
	"context"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// look finds out what the host has.
func (st *setup) look(ctx context.Context) error {
	if st.plan.ownsJob() {
		return nil // nothing is left to ask
	}
	st.Draw("looking for accounts, partitions and Jupyter there, for at most half a minute …")
	found, err := st.Client.Look(ctx, st.plan.host)
	st.Draw("")
	switch {
	case ctx.Err() != nil || api.HasCode(err, api.CodeFailed):
		return err // the host has a scheduler that tunctl cannot use, or runs no commands
	case err != nil:
		st.Say("%s could not find out what is there: %v", st.Paint(term.Yellow, "!"), err)
	default:
		st.found, st.looked = found, true
	}
	for _, problem := range found.Problems {
		st.Say("%s %s: no answer in time", st.Paint(term.Yellow, "!"), problem)
	}
	if st.plan.job.Site.Name == "" {
		st.plan.siteFound = true
		if st.plan.ownMachine, err = st.askOwnMachine(ctx, found.Scheduler); err != nil {
			return err
		}
		st.plan.job.Site, err = st.foundSite(ctx, found.Scheduler)
	}
	return err
}

// foundSite is the site of a host that the user named: the config's, or the generic one of
// its scheduler.
func (st *setup) foundSite(ctx context.Context, scheduler string) (configs.Site, error) {
	known := st.Config.Host(st.plan.host)
	if scheduler == "" && known.Site == "" {
		var err error
		if scheduler, err = st.answer(ctx, schedulerQuestion(st.plan.host), ""); err != nil {
			return configs.Site{}, err
		}
		st.Say("Set scheduler = %q in [host.%s] if it is not found later either: `tunctl config edit`", scheduler, st.plan.host)
	}
	return st.Sites.ForHost(known, scheduler)
}

// askOwnMachine asks whether a host without a known scheduler is the user's own, so that jobs may run on it.
func (st *setup) askOwnMachine(ctx context.Context, scheduler string) (bool, error) {
	if configs.Quote(scheduler) != noScheduler || st.Config.Host(st.plan.host).Scheduler != "" {
		return false, nil
	}
	text, err := st.readLine(ctx, OwnMachineQuestion(st.plan.host))
	if err == nil && !IsYes(text) {
		err = api.Errorf(api.CodeNoScheduler, "no scheduler was found on %s, so nothing was written", st.plan.host).
			WithHint("put the scheduler's commands on the PATH of your login shell there, or give it with --scheduler")
	}
	return err == nil, err
}
