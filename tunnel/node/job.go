package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/posixsh"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/step"
)

// jobAccess is how shells, commands and files get into a job on a node. The routes are tried
// in this order, but the one that worked for another job of the host comes first:
//
//	A relay in a login on the node, by our own hop, if the node's sshd makes logins a part
//	of the job (pam_slurm_adopt and alike). Other schedulers than Slurm have only this route,
//	and the relay takes the environment from the job's server.
//
//	A relay in a job step.
//
//	The hop although it is not a part of the job, if no step starts. The user is told.
type jobAccess struct {
	routeFinder
	node  *Node
	o     Options
	steps *jobSteps // nil: it is no job of Slurm
	onHop *sharedRelay
	port  atomic.Int32 // of the job's server; 0: not known

	told sync.Map // the noticeKinds
}

// The names of routes that are compared.
const (
	stepRoute    = "srun"
	outsideRoute = "a login outside the job"
)

// outsideFor is how long the route outside the job is used before steps are tried again.
const outsideFor = 10 * time.Minute

// noticeKind is what the user is told at most once for each node.
type noticeKind int

const (
	noticeOutside noticeKind = iota
	noticeEnded
	noticeFiles
)

var errNotAdopted = errors.New("logins on the node are not part of the job")

func newJobAccess(n *Node, o Options) *jobAccess {
	j := &jobAccess{node: n, o: o}
	relay := relayOptions{
		start: j.startOnHop, options: j.options, changed: n.login.Changed, records: cmp.Or[Records](o.Records, noRecords{}), record: o.record(true),
		told: o.Held, limits: n.limits, log: n.log,
	}
	if relay.told == nil {
		relay.told = func() {}
	}
	if o.Job != "" {
		j.steps = &jobSteps{
			link: n.login, learned: n.learned, job: o.Job, cluster: o.Cluster, node: slurmName(o.Names),
			otherRoute: n.hop.MayWork, starting: ctxtime.NewMutex(),
		}
		relay.otherWay = j.steps.start
	}
	j.onHop = newSharedRelay(relay)
	j.routeFinder = newRouteFinder("cannot get into the job on "+o.Names[0], n.limits, n.log,
		&route{name: "a login on the node", relay: j.onHop, ready: j.hopReady, open: j.openOnHop})
	if o.Job == "" {
		return j
	}
	relay.start, relay.otherWay, relay.record, relay.replaced = j.steps.start, j.startOnHop, o.record(false), j.tellEnded
	j.steps.relay = newSharedRelay(relay)
	j.routes = append(j.routes,
		&route{name: stepRoute, relay: j.steps.relay, ready: j.steps.relay.ready, open: j.steps.relay.openChannel},
		&route{name: outsideRoute, relay: j.onHop, ready: j.outsideReady, open: j.openOnHop})
	return j
}

// SetServer tells the port of the job's server, whose environment programs get that are
// started inside the job from now on.
func (n *Node) SetServer(port int) { n.job.port.Store(int32(port)) }

// OpenChannel opens a channel inside the job: a "session" is a shell, a command or a file
// server there, with the job's environment; "direct-tcpip" and
// "direct-streamlocal@openssh.com" are connections as the node sees them. An
// *ssh.OpenChannelError is the node's own refusal; an *api.Error says that the job has
// ended.
func (n *Node) OpenChannel(ctx context.Context, kind string, payload []byte) (ch ssh.Channel, requests <-chan *ssh.Request, err error) {
	err = n.job.byRoute(ctx, func(r *route) (err error) {
		ch, requests, err = r.open(ctx, kind, payload)
		return err
	})
	if err == nil && kind == "session" {
		ch, requests = newJobSession(ch, requests, n.job.openSFTP)
	}
	return ch, requests, err
}

// byRoute has use use the route into the job, or another if that one no longer works.
func (j *jobAccess) byRoute(ctx context.Context, use func(*route) error) error {
	for again := true; ; again = false {
		r, err := j.route(ctx)
		if err != nil {
			return err
		}
		if err := use(r); !again || !failure.IsRoute(err) {
			return err
		}
		j.settle(nil, time.Time{})
	}
}

// route is the one that works.
func (j *jobAccess) route(ctx context.Context) (*route, error) {
	best := j.node.learned.into.get()
	if best == "" && j.node.learned.onto.get() == stepRoute {
		best = stepRoute // pages had found that no hop works
	}
	var noStep error
	return j.find(ctx, best, func(r *route) error {
		_, err := r.ready(ctx)
		switch {
		case err == nil:
			j.found(r, noStep)
		case r.name == stepRoute:
			noStep = err
		}
		return err
	})
}

// found settles on a route. The one outside of the job is not remembered for other jobs,
// and not for long.
func (j *jobAccess) found(r *route, noStep error) {
	j.log.Info("found a way into the job", "way", r.name)
	switch r.name {
	case outsideRoute:
		j.settle(r, time.Now().Add(outsideFor))
		if e, ok := errors.AsType[*failure.RouteError](noStep); ok {
			noStep = e.Err
		}
		j.tellOutside(fmt.Sprintf("no job step could be started (%v)", noStep))
		return
	case stepRoute:
		j.onHop.end() // it only showed that it is not part of the job
	}
	j.settle(r, time.Time{})
	j.node.learned.into.set(r.name)
}

func (j *jobAccess) options() step.Options {
	return step.Options{Job: cmp.Or(j.o.Job, j.o.QsubJob), Port: int(j.port.Load()), Resumable: !j.o.NoResume, Journals: j.o.Journals, Changed: j.o.Held}
}

// startOnHop starts a relay in a login on the node, or the way to one.
func (j *jobAccess) startOnHop(ctx context.Context, _ bool, join joinFunc) (*tunnel.Stream, error) {
	start, where := j.node.hop.Start, "a login on the node"
	if j.o.OnHost {
		start, where = j.node.login.Start, "a command on the host"
	}
	s, err := start(ctx, posixsh.LoginLine, j.hopCommand())
	if err != nil {
		return nil, err
	}
	return s, joinRelay(ctx, s, join, stepTimeout, where, j.o.Job)
}

// hopCommand starts the relay in a login. On PBS, pbs_attach makes the login's session a part of the
// job where that program exists and works, which only that program knows.
func (j *jobAccess) hopCommand() string {
	if j.o.QsubJob == "" || !posixsh.IsWord(j.o.QsubJob) {
		return step.Command()
	}
	return "pbs_attach -j " + j.o.QsubJob + " -p $$ >/dev/null 2>&1 </dev/null && export TUNCTL_INSIDE=1; " + step.Command()
}

// hopReady reports whether a login on the node is part of the job. Only Slurm has another
// route if it is not.
func (j *jobAccess) hopReady(ctx context.Context) (step.Info, error) {
	info, err := j.onHop.ready(ctx)
	outside := err == nil && !info.Inside
	if outside && j.o.QsubJob != "" {
		j.tellOutside(errNotAdopted.Error())
	}
	if j.o.Job == "" {
		return info, noPythonIsFine(err)
	}
	if outside {
		return info, j.node.hop.Failure(errNotAdopted)
	}
	return info, err
}

// tellOutside tells that shells are not part of the job, and what that means for them.
func (j *jobAccess) tellOutside(why string) {
	j.tell(noticeOutside, fmt.Sprintf("shells run on %s outside job %s: %s. After a lost connection they are kept for ten minutes only",
		j.node.names[0], cmp.Or(j.o.Job, j.o.QsubJob), why))
}

// outsideReady reports whether there is a login on the node.
func (j *jobAccess) outsideReady(ctx context.Context) (step.Info, error) {
	info, err := j.onHop.ready(ctx)
	return info, noPythonIsFine(err)
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
func (j *jobAccess) openOnHop(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	ch, requests, err := j.onHop.openChannel(ctx, kind, payload)
	if !errors.Is(err, errNoPython) {
		return ch, requests, err
	}
	return j.node.hop.OpenChannel(ctx, kind, payload)
}

// openSFTP opens the sftp subsystem where the relay found no server of files: that of the
// node's sshd, or else the host's.
func (j *jobAccess) openSFTP(ctx context.Context) (ssh.Channel, <-chan *ssh.Request, error) {
	if j.node.hop.IsLive() {
		return j.node.hop.OpenChannel(ctx, "session", nil)
	}
	j.tell(noticeFiles, fmt.Sprintf("files are those of %s: %s has no sftp-server", j.node.login.Label(), j.node.names[0]))
	return j.node.login.OpenChannel(ctx, "session", nil)
}

// tellEnded tells that the step ended by itself although the job runs.
func (j *jobAccess) tellEnded(lived time.Duration) {
	j.tell(noticeEnded, fmt.Sprintf("the connection into job %s ended after %s, and with it the shells there; the job still runs. "+
		"Some sites end long processes on login nodes, where srun waits", j.o.Job, api.DurationText(lived.Round(time.Second))))
}

// tell tells the user something, once for each kind.
func (j *jobAccess) tell(kind noticeKind, text string) {
	if _, known := j.told.LoadOrStore(kind, true); known {
		return
	}
	j.log.Info("notice about the job's node", "text", text)
	if j.o.Notice != nil {
		j.o.Notice(text)
	}
}

func (j *jobAccess) close() {
	for _, r := range j.relays() {
		r.close()
	}
}

// relays are those that there may be on the node.
func (j *jobAccess) relays() []*sharedRelay {
	if j.steps == nil {
		return []*sharedRelay{j.onHop}
	}
	return []*sharedRelay{j.steps.relay, j.onHop}
}

// DialInside connects to an address as the node sees it, by the relay inside the job: the
// connection outlives the one to the host where the relay does. What is written first costs no
// round trip of its own. Its errors are those of [Node.Dial], or say why there is no relay.
func (n *Node) DialInside(ctx context.Context, network, address string, first []byte) (conn net.Conn, err error) {
	if n.job.o.NoResume {
		return nil, errNoResume
	}
	err = n.job.byRoute(ctx, func(r *route) (err error) {
		conn, err = r.relay.dialAndWrite(ctx, network, address, first)
		return err
	})
	return conn, err
}

// DialKernel connects a page to its kernel as DialInside does, or continues what the relay keeps for
// that page, if verify accepts it.
func (n *Node) DialKernel(ctx context.Context, network, address string, first []byte, k step.Kernel, verify func() error) (conn *step.KernelConn, err error) {
	if n.job.o.NoResume {
		return nil, errNoResume
	}
	err = n.job.byRoute(ctx, func(r *route) (err error) {
		conn, err = r.relay.dialKernel(ctx, network, address, first, k, verify)
		return err
	})
	return conn, err
}

var (
	errNoResume = errors.New("resume is false for this host")
	errOutside  = errors.New("programs outside the job are kept for ten minutes only")
)

// Ends is why what runs inside the job ends with the connection to the host; nil: it continues,
// as far as is known.
func (n *Node) Ends() error {
	j := n.job
	j.mu.Lock()
	chosen, failed := j.chosen, j.pause.err
	j.mu.Unlock()
	if j.o.NoResume {
		return errNoResume
	}
	if chosen == nil {
		return failed
	}
	relay := chosen.relay
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if run := relay.running; chosen.name == outsideRoute || run != nil && !run.Info().Inside {
		return errOutside
	}
	if relay.running == nil && errors.Is(relay.pause.err, errNoPython) {
		return relay.pause.err
	}
	return nil
}
