package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/posixsh"
	"tunctl/tunnel"
	"tunctl/tunnel/channels"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/step"
)

// jobSteps are the steps of a Slurm job on one node, which srun on the host starts. One
// step with a relay carries everything.
type jobSteps struct {
	link    tunnel.Link
	learned *Learned
	job     string
	cluster string // "": the host's own
	node    string // its name in Slurm
	relay   *sharedRelay

	otherRoute func() bool // there may be one, if the step does not start soon

	starting ctxtime.Mutex // held while a step starts
	options  srunOptions
}

// srunOptions are what a version of srun needs.
type srunOptions struct {
	noOverlap bool // it is older than 20.11: steps share CPUs without the option
	allMemory bool // the step is to share the job's memory, too
}

// stepTimeout is how long the start of a step may take where there is no other route, and
// the start of a relay on a node whose file system is slow.
const stepTimeout = 30 * time.Second

var (
	errStepSlow  = errors.New("the step did not start in time")
	errNoOverlap = errors.New("srun does not know --overlap")
	errNoPython  = errors.New("the node has no python3 (3.6 or newer)")
)

// noPython is what the relay's command prints on a node without a Python for it.
var noPython = regexp.MustCompile(`python3 (?:is not installed on|on this node is older than)`)

// slurmName is the name of a node in Slurm, which has neither addresses nor domains.
func slurmName(names []string) string {
	for _, name := range names {
		if _, err := netip.ParseAddr(name); err != nil {
			short, _, _ := strings.Cut(name, ".")
			return short
		}
	}
	return names[0]
}

// check reports a job or a node that cannot be part of a command.
func (j *jobSteps) check() error {
	if !posixsh.IsWord(j.node) || !posixsh.IsWord(j.job) || j.cluster != "" && !posixsh.IsWord(j.cluster) {
		return &failure.RouteError{Route: "srun", Err: fmt.Errorf("%q, %q and %q cannot be part of a command", j.node, j.job, j.cluster)}
	}
	return nil
}

// srun is the part of the command line before the program. Of the login node's limits
// only the size of core files applies to the job, as it does under srun by hand. Without
// -u, srun buffers output until a newline. It ends by itself if the step cannot be created
// soon: nothing else can end it while it waits for that.
func (j *jobSteps) srun(limit time.Duration) string {
	words := []string{
		"srun", "--jobid=" + j.number(), "--nodes=1", "--ntasks=1", "--nodelist=" + j.node, "--propagate=CORE",
		"--cpu-bind=none", "--mpi=none", "--job-name=tunctl", "--quiet", "-u", "--immediate=" + strconv.Itoa(max(1, int(limit.Seconds()))),
	}
	words = append(words, j.clusters()...)
	if !j.options.noOverlap {
		words = append(words, "--overlap")
	}
	if j.options.allMemory {
		words = append(words, "--mem=0")
	}
	return strings.Join(words, " ")
}

// number is the job's id as srun takes it. A task of an array, such as 48213_4, has a
// number of its own, which Slurm is asked for.
func (j *jobSteps) number() string {
	if !strings.ContainsRune(j.job, '_') {
		return j.job
	}
	words := append([]string{"squeue"}, j.clusters()...)
	return "$(" + strings.Join(append(words, "-h", "-o", "%A", "-j", j.job), " ") + ")"
}

func (j *jobSteps) clusters() []string {
	if j.cluster == "" {
		return nil
	}
	return []string{"--clusters=" + j.cluster}
}

// start starts the step that all channels share. srun 20.11 to 21.08 shares only CPUs
// under --overlap, so that a step waits for memory that the job's server has.
func (j *jobSteps) start(ctx context.Context, resumed bool, join joinFunc) (*tunnel.Stream, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	if err := j.starting.Lock(ctx); err != nil {
		return nil, err
	}
	defer j.starting.Unlock()
	known := j.learned.srun.get()
	j.options.noOverlap = j.options.noOverlap || known.noOverlap
	j.options.allMemory = j.options.allMemory || known.allMemory
	for {
		limit := j.link.Limits().StepStart
		if resumed || j.options.allMemory && !j.otherRoute() {
			limit = stepTimeout
		}
		s, err := j.link.Start(ctx, posixsh.LoginLine, leaveStep+j.srun(limit)+" sh -c "+posixsh.Quote(step.Command()))
		if err == nil {
			err = joinRelay(ctx, s, join, limit, "srun", j.job)
		}
		switch {
		case errors.Is(err, errNoOverlap) && !j.options.noOverlap:
			j.options.noOverlap = true
		case errors.Is(err, errNoPython):
			return nil, err
		case failure.IsRoute(err) && !errors.Is(err, channels.ErrFew) && !j.options.allMemory:
			j.options.allMemory = true
		default:
			if err == nil {
				j.learned.srun.set(j.options)
			}
			return s, err
		}
		j.link.Log().Debug("the job step is tried again", "job", j.job, "err", err)
	}
}

// leaveStep is the part of the command line before srun. When our side is gone, the relay
// ends, but stays in the step for as long as something runs there in the background, such
// as the server of an editor. srun would wait for that on the login node. Killed, it leaves
// the step alone; its child must not outlive it, since that would end the step. By then the
// shell's number may belong to another process, so srun is known by the relay's name too.
const leaveStep = `exec 3<&0; { { cat <&3; exec >&-; sleep 5; p=$(pgrep -P $$ -f tunctl-relay) && kill -9 $(pgrep -P $p) $p; } 2>/dev/null & } | exec `

// joinRelay has join make a relay of a command, or the way to one, which takes no longer than
// limit.
func joinRelay(ctx context.Context, s *tunnel.Stream, join joinFunc, limit time.Duration, route, job string) error {
	starting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := join(starting, s)
	if err == nil {
		return nil
	}
	_ = s.Close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, step.ErrGone):
		return err
	}
	slow := starting.Err() != nil
	if !slow {
		select {
		case <-s.Exited():
		case <-ctx.Done():
			return ctx.Err()
		case <-starting.Done():
		}
	}
	return relayFailure(s, err, slow, route, job)
}

// relayFailure says why a relay did not start.
func relayFailure(s *tunnel.Stream, err error, slow bool, route, job string) error {
	if lost := s.Lost(); lost != nil {
		return lost
	}
	said := s.Stderr.String()
	switch {
	case noPython.MatchString(said):
		err = errNoPython
	case jobIsOver.MatchString(said):
		return failure.Permanent.Errorf(api.CodeJobEnded, err, "job %s has ended", job)
	case strings.Contains(said, "option") && strings.Contains(said, "--overlap'"):
		err = errNoOverlap
	case slow:
		err = errStepSlow
	default:
		if text := s.Stderr.Text().String(); text != "" {
			err = errors.New(text)
		}
	}
	return &failure.RouteError{Route: route, Err: err}
}

// jobIsOver is what srun prints about a job that has ended.
var jobIsOver = regexp.MustCompile(`(?i)Invalid job id specified|expired or invalid job|Slurm job \d+ has expired|` +
	`already completing or completed|job has already (?:finished|completed)|is no longer active`)

// jobEnded reports whether err says that the job has ended.
func jobEnded(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeJobEnded
}
