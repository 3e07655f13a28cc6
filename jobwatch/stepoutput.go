package jobwatch

import (
	"context"
	"errors"
	"time"
)

// ErrNoSteps means that the host's scheduler cannot show what a running job prints.
var ErrNoSteps = errors.New("the scheduler does not show the output of a job")

// StepOutput returns what the running steps of a job printed of late. It is the last
// resort for a job that has no log at all, as under srun and salloc, whose output goes
// to a person's terminal. It costs the host more than any query, so that all jobs of
// a host take turns, Limits.Query apart; ctx ends the wait for one's turn.
func (w *Watcher) StepOutput(ctx context.Context, id string) ([]byte, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	steps, ok := s.(stepper)
	if !ok {
		return nil, ErrNoSteps
	}
	select {
	case w.listening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.listening }()
	if err := sleep(ctx, time.Until(w.listenAgain)); err != nil {
		return nil, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	w.listenAgain = time.Now().Add(w.limits.stretch(w.limits.Query))
	return steps.stepOutput(ctx, w.sh, id)
}
