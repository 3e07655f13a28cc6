package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
)

// RecoverJobs finds the jobs on a connected host again that are in no record, if the state file could
// not be read in full since that was last done. One that is asked for meanwhile waits for it: it would
// share the query, and not know what has ended since that began.
func (r *Registry) RecoverJobs(ctx context.Context, host string) error {
	turn, _ := r.recoveries.LoadOrStore(host, make(chan struct{}, 1))
	select {
	case turn.(chan struct{}) <- struct{}{}:
		defer func() { <-turn.(chan struct{}) }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !r.Store.Incomplete(host) || strings.Contains(host, ",") { // a node of a job is behind its host
		return nil
	}
	var known state.Submissions // before the query, during which one may end and be forgotten
	for _, name := range r.Store.Live() {
		known = append(known, r.Store.Session(name).Submissions...)
	}
	jobs, account := r.Hosts.WatcherOn(host)
	list, err := jobs.Submitted(ctx, "", nil)
	if err != nil {
		return err
	}
	for _, x := range list {
		if !slices.ContainsFunc(known, func(s state.Submission) bool { return s.Tag == x.Tag }) {
			r.recoverJob(x, host, account)
		}
	}
	r.Store.SetComplete(host)
	return nil
}

// recoverJob records a job that this computer, or an older tunctl on any, has submitted.
func (r *Registry) recoverJob(x jobwatch.Submitted, host, account string) {
	if !configs.ValidSessionName(x.Session) || x.Computer != "" && x.Computer != submit.Computer() {
		r.Log.Info("a job that belongs to no session of this computer", "job", x.Job.ID, "host", host, "session", x.Session, "computer", x.Computer)
		return
	}
	sub := state.Submission{Tag: x.Tag, Role: state.RoleOther, Job: &x.Job, Host: host, Account: account}
	added := false
	err := r.Store.Update(x.Session, func(rec *state.Session) {
		for _, known := range rec.Submissions {
			if known.Tag == x.Tag || known.Job != nil && known.Host == host && known.Job.Ref() == x.Job.Ref() {
				return
			}
		}
		if !rec.Current().Live() {
			sub.Role = state.RoleJob
		}
		rec.Submissions, added = rec.Submissions.Put(sub), true
	})
	if err != nil {
		r.Log.Error("cannot save the session", "session", x.Session, "err", err)
	}
	if !added {
		return
	}
	s, err := r.Find(x.Session)
	if err != nil {
		r.Log.Error("cannot list a session", "session", x.Session, "err", err)
		return
	}
	s.Jobs.Show(sub, x.Job)
	s.observer.observe()
	s.Notify("", fmt.Sprintf("job %s was found again on %s: it was missing in tunctl's state file", x.Job.ID, host))
}

// recoverToEnd finds a session's jobs again before they are ended, and connects for that: to end a
// job saves its cost.
func (r *Registry) recoverToEnd(ctx context.Context, s *Session) error {
	if !s.HasJob() || !r.Store.Incomplete(s.Host()) {
		return nil
	}
	h := r.Hosts.Pool.Host(s.Host())
	var err error
	if h.Status().State != api.HostUp {
		h.UpFor(localapi.Client(ctx))
		err = h.Await(ctx)
	}
	if err == nil {
		err = r.RecoverJobs(ctx, s.Host())
	}
	if err != nil {
		e := *api.AsError(err)
		e.Message = fmt.Sprintf("the state file could not be read, so it is not known whether %s has a job: %s", s.Name, e.Message)
		e.Hint = fmt.Sprintf("`tunctl login %s` connects; then run this again", s.Host())
		return &e
	}
	return s.record(func(r *state.Session) { r.Submissions = r.Submissions.CancelAll(time.Now()) })
}
