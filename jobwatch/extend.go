package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// Extend sets a job's time limit, counted from its start. The limit is whole and not
// "so much more": when the answer is lost, asking again does no harm. Most sites let
// only their staff do this; a refusal is an *api.Error in the scheduler's own words.
func (w *Watcher) Extend(ctx context.Context, id string, limit time.Duration) error {
	s, err := w.scheduler(ctx)
	if err != nil {
		return err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	w.log.Info("extending a job", "job", id, "limit", limit)
	if err := s.extend(ctx, w.sh, id, limit); err != nil {
		return notExtended(id, err)
	}
	w.changed()
	return nil
}

// notExtended keeps the scheduler's words and adds what a person can do.
func notExtended(id string, err error) error {
	if errors.Is(err, ErrNoAnswer) {
		return err
	}
	if errors.Is(err, errNoJob) {
		return &api.Error{Code: api.CodeJobEnded, Message: fmt.Sprintf("job %s is no longer running, so it cannot be extended", id), Err: err}
	}
	return &api.Error{
		Code: api.CodeFailed, Err: err,
		Message: fmt.Sprintf("could not extend job %s: %s", id, api.Redact(err.Error())),
		Hint:    "many sites let only their staff extend a job: ask their support, or save your work and start a new one; keep = true does that automatically",
	}
}

// clockSpan writes a limit as both schedulers read it: hours count on past a day.
// Slurm takes whole minutes only and rounds up.
func clockSpan(d time.Duration) string {
	s := int((d + time.Second - 1) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
