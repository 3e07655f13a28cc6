package jobwatch

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// ErrNoSteps means that the host's scheduler cannot show what a running job prints.
var ErrNoSteps = errors.New("the scheduler does not show the output of a job")

// stepper is a scheduler that can show the newest output of a job's running steps.
type stepper interface {
	stepOutput(ctx context.Context, sh *shell, id string) ([]byte, error)
}

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

const (
	stepsHeard  = 2       // how many of a job's steps are listened to, the newest ones
	stepSeconds = 3       // for how long: what was printed before comes at once
	stepBytes   = 1 << 18 // how much is taken of what they printed
)

// stepOutput attaches to the job's newest steps for a moment: their daemon keeps the
// last lines for whoever attaches. An end of sattach's input would be passed on to the
// person's program, so that its input is held open until after sattach was killed.
func (slurm) stepOutput(ctx context.Context, sh *shell, ref string) ([]byte, error) {
	id, cluster := splitRef(ref)
	res, err := sh.login(ctx, quiet+`command -v sattach >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || exit 127
`+hereOnly(cluster)+`steps=$(limit squeue `+onCluster(cluster)+`-h -s -j `+quote(id)+` -o %i) || exit
for step in $(printf '%s\n' "$steps" | grep -E '^[0-9_+]+\.[0-9]+$' | tail -n `+strconv.Itoa(stepsHeard)+`); do
	timeout -s KILL `+strconv.Itoa(stepSeconds+1)+` sh -c 'sleep 60 | timeout -s KILL `+strconv.Itoa(stepSeconds)+` sattach "$1" 2>/dev/null' sh "$step" 2>/dev/null
	echo
done 2>/dev/null | head -c `+strconv.Itoa(stepBytes))
	if err != nil {
		return nil, err
	}
	if res.Exit == 127 {
		return nil, ErrNoSteps
	}
	return res.Stdout, slurmProblem("squeue", res)
}

// hereOnly ends a script with status 127 unless cluster is the host's own: sattach and
// sstat know no other.
func hereOnly(cluster string) string {
	if cluster == "" {
		return ""
	}
	return `test "$(limit scontrol show config | sed -n 's/^ClusterName *= *//p')" = ` + quote(cluster) + " || exit 127\n"
}
