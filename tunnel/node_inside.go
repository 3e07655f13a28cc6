package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/tunnel/step"
)

// inside is how shells, commands and files get into a job on a node. The ways are tried
// in this order, but the one that worked for another job of the host comes first:
//
//	A relay in a login on the node, by our own hop, if the node's sshd makes logins a part
//	of the job (pam_slurm_adopt and alike). Other schedulers than Slurm have only this way,
//	and the relay takes the environment from the job's server.
//
//	A relay in a job step.
//
//	The hop although it is not a part of the job, if no step starts. A person is told.
type inside struct {
	wayFinder
	node   *Node
	job    string // of Slurm
	pbsJob string
	steps  *jobSteps // nil: it is no job of Slurm
	onHop  *sharedRelay
	notice func(string)
	port   atomic.Int32 // of the job's server; 0: not known

	telling sync.Mutex
	told    map[noticeKind]bool
}

// The names of ways that are compared.
const (
	stepWay    = "srun"
	outsideWay = "a login outside the job"
)

// outsideFor is how long the way outside the job is used before steps are tried again.
const outsideFor = 10 * time.Minute

// noticeKind is what a person is told at most once for each node.
type noticeKind int

const (
	noticeOutside noticeKind = iota
	noticeEnded
	noticeFiles
)

var errNotAdopted = errors.New("logins on the node are not part of the job")

func newInside(n *Node, o NodeOptions) *inside {
	i := &inside{node: n, job: o.Job, pbsJob: o.PBSJob, notice: o.Notice, told: map[noticeKind]bool{}}
	i.wayFinder = newWayFinder("cannot get into the job on "+o.Names[0], n.limits, n.log,
		&way{name: "a login on the node", ready: i.hopReady, open: i.openOnHop})
	i.onHop = newSharedRelay(n.limits, n.log, i.server, i.startOnHop)
	if o.Job == "" {
		return i
	}
	i.steps = &jobSteps{host: n.login, job: o.Job, cluster: o.Cluster, node: slurmName(o.Names), otherWay: n.hop.mayWork}
	i.steps.relay = newSharedRelay(n.limits, n.log, i.server, func(ctx context.Context) (*runningRelay, error) {
		return i.steps.start(ctx, i.options())
	})
	i.steps.relay.replaced = i.tellEnded
	i.ways = append(i.ways,
		&way{name: stepWay, ready: i.stepReady, open: i.steps.relay.openChannel},
		&way{name: outsideWay, ready: i.outsideReady, open: i.openOnHop})
	return i
}

// SetServer tells the port of the job's server, whose environment programs get that are
// started inside the job from now on.
func (n *Node) SetServer(port int) { n.inside.port.Store(int32(port)) }

// OpenChannel opens a channel inside the job: a "session" is a shell, a command or a file
// server there, with the job's environment; "direct-tcpip" and
// "direct-streamlocal@openssh.com" are connections as the node sees them. An
// *ssh.OpenChannelError is the node's own refusal; an *api.Error says that the job has
// ended.
func (n *Node) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	i := n.inside
	for again := true; ; again = false {
		w, err := i.way(ctx)
		if err != nil {
			return nil, nil, err
		}
		ch, requests, err := w.open(ctx, kind, payload)
		if err == nil && kind == "session" {
			ch, requests = newJobSession(ch, requests, i.openSFTP)
		}
		if err == nil || !again || !isNoWay(err) {
			return ch, requests, i.noteEnd(err)
		}
		i.settle(nil, time.Time{})
	}
}

// way is the one that works.
func (i *inside) way(ctx context.Context) (*way, error) {
	best := i.node.login.insideWay.get()
	if best == "" && i.node.login.nodeWay.get() == stepWay {
		best = stepWay // pages had found that no hop works
	}
	var noStep error
	return i.find(ctx, best, func(w *way) error {
		err := w.ready(ctx)
		switch {
		case err == nil:
			i.found(w, noStep)
		case w.name == stepWay:
			noStep = err
		}
		return i.noteEnd(err)
	})
}

// found settles on a way. The one outside of the job is not remembered for other jobs,
// and not for long.
func (i *inside) found(w *way, noStep error) {
	i.log.Info("found a way into the job", "way", w.name)
	switch w.name {
	case outsideWay:
		i.settle(w, time.Now().Add(outsideFor))
		i.tell(noticeOutside, fmt.Sprintf("shells and files are on %s, but outside job %s, since no job step starts: %v",
			i.node.hop.names[0], i.job, noStep))
		return
	case stepWay:
		i.onHop.end() // it only showed that it is not part of the job
	}
	i.settle(w, time.Time{})
	i.node.login.insideWay.set(w.name)
}

// noteEnd remembers that the job has ended: srun is not asked again.
func (i *inside) noteEnd(err error) error {
	if jobEnded(err) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.ended = err
	}
	return err
}

// server is the port of the job's server; 0: not known.
func (i *inside) server() int { return int(i.port.Load()) }

func (i *inside) options() step.Options {
	return step.Options{Job: cmp.Or(i.job, i.pbsJob), Port: i.server()}
}

// startOnHop starts a relay in a login on the node.
func (i *inside) startOnHop(ctx context.Context) (*runningRelay, error) {
	c, err := i.node.hop.connection(ctx)
	if err != nil {
		return nil, err
	}
	s, err := c.stream(ctx, posixsh.LoginLine, i.hopCommand())
	if err != nil {
		return nil, err
	}
	return startRelay(ctx, s, i.options(), stepPatience, "a login on the node", i.job)
}

// hopCommand starts the relay in a login. On PBS, pbs_attach makes it a part of the job
// where that program exists and works. It was tried on a live OpenPBS only.
func (i *inside) hopCommand() string {
	if i.pbsJob == "" || !safeWord(i.pbsJob) {
		return step.Command()
	}
	attach := "pbs_attach -j " + i.pbsJob + " "
	return attach + "true >/dev/null 2>&1 </dev/null && exec " + attach + "sh -c " + posixsh.Quote(step.Command()) + "; " + step.Command()
}

// hopReady reports whether a login on the node is part of the job. Only Slurm has another
// way if it is not.
func (i *inside) hopReady(ctx context.Context) error {
	info, err := i.onHop.ready(ctx)
	switch {
	case i.job == "":
		return noPythonIsFine(err)
	case err == nil && !info.Inside:
		return i.node.hop.noWay(errNotAdopted)
	}
	return err
}

// stepReady reports whether a job step starts.
func (i *inside) stepReady(ctx context.Context) error {
	_, err := i.steps.relay.ready(ctx)
	return err
}

// outsideReady reports whether there is a login on the node.
func (i *inside) outsideReady(ctx context.Context) error {
	_, err := i.onHop.ready(ctx)
	return noPythonIsFine(err)
}

// noPythonIsFine is nil if err only says that the node has no Python.
func noPythonIsFine(err error) error {
	if errors.Is(err, errNoPython) {
		return nil
	}
	return err
}

// openOnHop opens a channel of the relay on the node. Without Python it is one of the
// node's sshd.
func (i *inside) openOnHop(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	ch, requests, err := i.onHop.openChannel(ctx, kind, payload)
	if !errors.Is(err, errNoPython) {
		return ch, requests, err
	}
	c, err := i.node.hop.connection(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c.openChannel(ctx, kind, payload)
}

// openSFTP opens the sftp subsystem where the relay found no server of files: that of the
// node's sshd, or else the host's.
func (i *inside) openSFTP(ctx context.Context) (ssh.Channel, <-chan *ssh.Request, error) {
	if c := i.node.hop.live(); c != nil {
		return c.openChannel(ctx, "session", nil)
	}
	i.tell(noticeFiles, fmt.Sprintf("files are those of %s: %s has no sftp-server", i.node.login.label(), i.node.hop.names[0]))
	return i.node.login.OpenChannel(ctx, "session", nil)
}

// tellEnded tells that the step ended by itself although the job runs.
func (i *inside) tellEnded(lived time.Duration) {
	i.tell(noticeEnded, fmt.Sprintf("the connection into job %s ended after %s, and with it the shells there; the job still runs. "+
		"Some sites end long processes on login nodes, where srun waits", i.job, api.DurationText(lived.Round(time.Second))))
}

// tell tells a person something, once for each kind.
func (i *inside) tell(kind noticeKind, text string) {
	i.telling.Lock()
	known := i.told[kind]
	i.told[kind] = true
	i.telling.Unlock()
	if !known {
		i.log.Info("notice about the job's node", "text", text)
		if i.notice != nil {
			i.notice(text)
		}
	}
}

func (i *inside) close() {
	if i.steps != nil {
		i.steps.relay.close()
	}
	i.onHop.close()
}
