package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The states of a practice job, in Slurm's words.
const (
	statePending   = "PENDING"
	stateRunning   = "RUNNING"
	stateEnding    = "COMPLETING"
	stateCompleted = "COMPLETED"
	stateFailed    = "FAILED"
	stateCancelled = "CANCELLED"
	stateTimeout   = "TIMEOUT"
)

const (
	queueFor     = 700 * time.Millisecond
	firstJob     = 1001
	slotsPerNode = 4
)

// What a node has, and how long a job may run, as sinfo and scontrol show it.
const (
	nodeCPUs = 4
	nodeGPUs = 2
	nodeMB   = 32000
	cpuMB    = 2000 // for each CPU of a job that asks for no memory
	maxLimit = 8 * time.Hour
)

// Job is a practice job as it is now.
type Job struct {
	ID        string
	Name      string
	State     string // PENDING, RUNNING, COMPLETING, COMPLETED, FAILED, CANCELLED or TIMEOUT
	Reason    string // why it is pending
	Node      string
	Script    string // the path it was submitted from
	WorkDir   string
	Log       string // its standard output
	Submitted time.Time
	Expected  time.Time // when a pending job should start
	Started   time.Time
	Ended     time.Time
	Exit      int
	Signal    int
	Restarts  int
}

// Over reports whether the job has ended for good.
func (j *Job) Over() bool {
	return j.State != statePending && j.State != stateRunning && j.State != stateEnding
}

// order is the content of a submission.
type order struct {
	name      string
	queue     string
	account   string
	script    string // the path, "" from standard input
	text      string
	args      []string // the script's own
	command   []string // the whole submission
	workDir   string
	output    string // as asked for, "" for the default
	errors    string
	join      bool // PBS -j
	appendLog bool
	keep      string // PBS -k
	spools    bool   // PBS: output stays on the node until the job ends
	limit     time.Duration
	held      bool
	gpus      int
	cpus      int // on one node
	mb        int // of memory, on one node
	env       []string
	selected  string   // PBS -l select
	project   string   // PBS -P
	variables []string // PBS -v
}

// onNode is how many CPUs and GPUs a job has on its node.
func (o *order) onNode() (cpus, gpus int) { return max(o.cpus, 1), min(o.gpus, nodeGPUs) }

// memory is a job's, in MB.
func (o *order) memory() int { return cmp.Or(o.mb, max(o.cpus, 1)*cpuMB) }

// impossible says, in Slurm's words, why the demo's cluster can never run a job; "" if it can.
func (b *batch) impossible(o *order) string {
	if !b.limited {
		return ""
	}
	if o.gpus > nodeGPUs*len(nodes) || o.cpus > nodeCPUs || o.memory() > nodeMB {
		return "Requested node configuration is not available"
	}
	if o.limit > maxLimit {
		return "Requested time limit is invalid (missing or exceeds some limit)"
	}
	return ""
}

// job is a Job with what the batch system itself needs to know of it.
type job struct {
	Job
	order
	seq     int
	pid     int
	spoolIn string // the job's folder on its node
	errLog  string // standard error, as asked for
	errFile string // where it really goes: joined to the output, it is the same
	// cancelled says that its owner ended it.
	cancelled bool
	stops     chan stopReason
	altered   chan time.Duration // a new time limit
	release   chan struct{}
	over      chan struct{} // closed when it has ended for good
}

type stopReason string

const (
	stopCancel  stopReason = "cancel"
	stopKill    stopReason = "kill"
	stopRequeue stopReason = "requeue"
)

var (
	errUnknownJob  = errors.New("invalid job id")
	errFinishedJob = errors.New("job has finished")
	errTooLong     = errors.New("longer than any job may run")
)

// batch is the scheduler: a queue, two nodes, and all jobs since the start.
type batch struct {
	c        *Cluster
	queueFor time.Duration
	starts   <-chan struct{} // a job starts earlier
	age      time.Duration   // of a job that starts
	jupyter  bool
	limited  bool // to what its nodes have

	mu         sync.Mutex
	jobs       []*job
	down       bool
	failing    string
	failRC     int
	extendable bool
	noHistory  bool          // PBS: keeps no history
	freed      chan struct{} // closed and replaced when a node has a free slot again
}

func newBatch(c *Cluster, o Options) *batch {
	wait := cmp.Or(o.QueueFor, queueFor)
	return &batch{c: c, queueFor: max(wait, 0), starts: o.Starts, jupyter: o.Jupyter, limited: o.Demo, extendable: o.Demo, freed: make(chan struct{})}
}

func (b *batch) controller(up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = !up
}

func (b *batch) isDown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

func (b *batch) failSubmit(text string, rc int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing, b.failRC = text, rc
}

// refusal is what submissions are refused with now, if they are.
func (b *batch) refusal() (text string, rc int, refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing, b.failRC, b.failing != ""
}

// submit queues a job and returns its id.
func (b *batch) submit(o order) (string, error) {
	now := time.Now()
	reason := "Priority"
	if b.limited {
		reason = "None" // no job is before it: the scheduler has not looked at it yet
	}
	b.mu.Lock()
	if b.c.ctx.Err() != nil {
		b.mu.Unlock()
		return "", b.c.ctx.Err()
	}
	j := &job{
		Job: Job{
			Name: o.name, State: statePending, Reason: reason, Script: o.script, WorkDir: o.workDir,
			Submitted: now, Expected: now.Add(b.queueFor),
		},
		order:   o,
		seq:     firstJob + len(b.jobs),
		stops:   make(chan stopReason, 1),
		altered: make(chan time.Duration, 1),
		release: make(chan struct{}, 1),
		over:    make(chan struct{}),
	}
	j.ID = strconv.Itoa(j.seq)
	if b.c.dialect == PBS {
		j.ID += "." + pbsServer
		j.setPBSLogs(b.c.Home())
	} else {
		j.setSlurmLogs()
	}
	if err := j.spool(b.c.spoolDir()); err != nil {
		b.mu.Unlock()
		return "", err
	}
	b.jobs = append(b.jobs, j)
	b.c.wg.Go(func() { b.serveJob(j) })
	b.mu.Unlock()
	b.c.log.Info("practice job submitted", "job", j.ID, "name", j.Name)
	return j.ID, nil
}

// serveJob runs a job from the queue to its end, again after each requeue.
func (b *batch) serveJob(j *job) {
	defer close(j.over)
	for {
		if !b.wait(j) {
			b.update(func() { j.State, j.Reason, j.Ended = stateCancelled, "None", time.Now() })
			return
		}
		again := b.run(j)
		b.mu.Lock()
		close(b.freed)
		b.freed = make(chan struct{})
		b.mu.Unlock()
		if !again {
			return
		}
	}
}

// wait keeps a job in the queue until it has a node; false when it was cancelled.
func (b *batch) wait(j *job) bool {
	if j.held {
		b.update(func() { j.Reason = "JobHeldUser" })
		select {
		case <-j.release:
			b.update(func() { j.held, j.Expected = false, time.Now().Add(b.queueFor) })
		case <-j.stops:
			return false
		case <-b.c.ctx.Done():
			return false
		}
	}
	timer := time.NewTimer(b.queueFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.starts:
	case <-j.stops:
		return false
	case <-b.c.ctx.Done():
		return false
	}
	for {
		freed, ok := b.place(j)
		if ok {
			return true
		}
		select {
		case <-freed:
		case <-j.stops:
			return false
		case <-b.c.ctx.Done():
			return false
		}
	}
}

// place assigns a node to a job, not the one it had before. If none is free, freed is
// closed when to try again.
func (b *batch) place(j *job) (freed chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	best, load := "", slotsPerNode
	cpus, gpus := j.onNode()
	for i := range nodes {
		node := nodes[(i+j.seq-firstJob)%len(nodes)]
		u := b.used(node)
		if node == j.Node && j.Restarts > 0 || b.limited && (u.cpus+cpus > nodeCPUs || u.gpus+gpus > nodeGPUs) {
			continue
		}
		if u.jobs < load {
			best, load = node, u.jobs
		}
	}
	if best == "" {
		j.Reason = "Resources"
		return b.freed, false
	}
	j.State, j.Reason, j.Node, j.Started = stateRunning, "None", best, time.Now().Add(-b.age)
	return nil, true
}

// used is what running jobs have of a node. The lock is held.
func (b *batch) used(node string) (u struct{ jobs, cpus, gpus int }) {
	for _, j := range b.jobs {
		if j.Node == node && (j.State == stateRunning || j.State == stateEnding) {
			cpus, gpus := j.onNode()
			u.jobs, u.cpus, u.gpus = u.jobs+1, u.cpus+cpus, u.gpus+gpus
		}
	}
	return u
}

// update changes a job under the lock.
func (b *batch) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// find finds a job by its id, with or without the server's name.
func (b *batch) find(id string) (*job, error) {
	id, _, _ = strings.Cut(id, ".")
	seq, err := strconv.Atoi(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errUnknownJob, id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := seq - firstJob; i >= 0 && i < len(b.jobs) {
		return b.jobs[i], nil
	}
	return nil, fmt.Errorf("%w: %q", errUnknownJob, id)
}

// stop requests the end of a job. A second request has no effect.
func (b *batch) stop(id string, why stopReason) error {
	j, err := b.find(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if j.Over() {
		return fmt.Errorf("%w: %q", errFinishedJob, id)
	}
	if why != stopCancel && j.State == statePending {
		return fmt.Errorf("job %q does not run", id)
	}
	j.cancelled = j.cancelled || why == stopCancel
	select {
	case j.stops <- why:
	default:
	}
	return nil
}

func (b *batch) keepsHistory() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.noHistory
}

// view is a copy of the job that needs no lock.
type view struct {
	Job
	order
	seq, pid  int
	errLog    string
	cancelled bool
}

// views copies the jobs, oldest first.
func (b *batch) views() []view {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]view, len(b.jobs))
	for i, j := range b.jobs {
		list[i] = view{j.Job, j.order, j.seq, j.pid, j.errLog, j.cancelled}
	}
	return list
}

func (b *batch) snapshot() []Job {
	views := b.views()
	list := make([]Job, len(views))
	for i, v := range views {
		list[i] = v.Job
	}
	return list
}

// await waits until a job is over, as sbatch --wait does.
func (b *batch) await(ctx context.Context, id string) (Job, error) {
	j, err := b.find(id)
	if err != nil {
		return Job{}, err
	}
	select {
	case <-j.over:
	case <-ctx.Done():
		return Job{}, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return j.Job, nil
}
