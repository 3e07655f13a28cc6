// Package lab is tunctl's practice cluster: a login node, a batch system and two
// compute nodes, all in this process and on this computer's loopback.
//
// Start starts an SSH server on 127.0.0.1 that accepts one key, made for this run, and
// writes what a client needs: the key, a known_hosts file and an ssh_config with the
// alias "practice". Commands run in a real shell with a student's home, where sbatch,
// squeue, scontrol, sacct and scancel, or qsub, qselect, qstat and qdel, have the real
// programs' formats for what tunctl uses of them. A job waits in the queue for a moment
// and then runs as a local process whose host name is cn01 or cn02.
//
// It is for `tunctl demo` and quick tests, whose faults (Pause, DropAll, Requeue and
// others) are methods of Cluster. It is no sandbox, since jobs run with the rights of
// whoever started it, and it does not replace tests against real servers.
package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/posixsh"

	"golang.org/x/crypto/ssh"
)

// The dialects of a practice cluster.
const (
	Slurm = "slurm"
	PBS   = "pbs"
)

// The names of the practice cluster.
const (
	alias     = "practice"
	user      = "student"
	loginNode = "practice-login"
)

// nodes are the compute nodes; all of them are this computer's loopback.
var nodes = []string{"cn01", "cn02"}

// nodePattern matches them in an ssh_config, where a name would be listed as that of a host to log in to.
const nodePattern = "cn0?"

// Options are the options of Start.
type Options struct {
	Dir      string          // where its files go; default: a temporary folder, removed by Close
	Dialect  string          // Slurm (default) or PBS
	QueueFor time.Duration   // how long a job is queued; default 700 ms, negative: not at all
	Starts   <-chan struct{} // a queued job that receives from it starts at once
	Jupyter  bool            // the built-in job serves a real Jupyter if one is on the PATH
	// PageCommand runs ServePage in its own process; the arguments of the job script
	// follow. Without it the built-in job runs in this process.
	PageCommand []string
	Demo        bool // the home has the script of the built-in job, and a prompt of its own; jobs can be extended, and take no more than there is
	// Hides, if set, reports the ports of this computer that are none of the cluster's nodes, such as
	// those of forwards to them, which would lead to themselves.
	Hides func(port int) bool
	Path  string // the computer's programs; default: this process's PATH
	Log   *slog.Logger
}

// Cluster is a running practice cluster.
type Cluster struct {
	dir     string
	ownDir  bool
	dialect string
	log     *slog.Logger
	config  *ssh.ServerConfig
	page    []string
	hides   func(port int) bool
	path    string // the student's PATH
	shell   string // the real one that commands run in
	batch   *batch
	links   links
	// noForwarding: its sshd forwards no connections.
	noForwarding atomic.Bool

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while the port is refused
	addr     string
	logins   int
	closed   bool
}

// Start starts a practice cluster. The caller closes it.
func Start(o Options) (*Cluster, error) {
	o.Dialect = cmp.Or(o.Dialect, Slurm)
	if o.Dialect != Slurm && o.Dialect != PBS {
		return nil, fmt.Errorf("unknown dialect %q: the practice cluster supports %q and %q", o.Dialect, Slurm, PBS)
	}
	c := &Cluster{
		dir:     o.Dir,
		dialect: o.Dialect,
		log:     cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		page:    slices.Clone(o.PageCommand),
		hides:   o.Hides,
		shell:   findShell(),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.links.init()
	if err := c.start(o); err != nil {
		return nil, errors.Join(fmt.Errorf("the practice cluster did not start: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(o Options) error {
	if c.shell == "" {
		return errors.New("the practice cluster needs a POSIX shell on this computer")
	}
	if err := c.makeDirs(); err != nil {
		return err
	}
	path, err := c.searchPath(cmp.Or(o.Path, os.Getenv("PATH")))
	if err != nil {
		return err
	}
	c.path = path
	addr, release, err := holdPort()
	if err != nil {
		return err
	}
	context.AfterFunc(c.ctx, release)
	listener, err := c.listen(addr)
	if err != nil {
		return err
	}
	c.listener, c.addr = listener, listener.Addr().String()
	if c.config, err = c.writeKeys(); err != nil {
		return err
	}
	c.batch = newBatch(c, o)
	if err := errors.Join(c.writePrograms(), c.startBroker()); err != nil {
		return err
	}
	if o.Demo {
		if err := writeHome(c); err != nil {
			return err
		}
	}
	c.wg.Go(func() { c.accept(listener) })
	c.log.Info("practice cluster is up", "addr", c.addr, "dialect", c.dialect, "dir", c.dir)
	return nil
}

func (c *Cluster) makeDirs() error {
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "tunctl-practice-")
		if err != nil {
			return err
		}
		c.dir, c.ownDir = dir, true
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	c.dir = dir
	for _, d := range []string{c.callDir(), c.linkDir()} { // of a cluster that was not closed
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	for _, d := range []string{c.Home(), c.sshDir(), c.binDir(), c.spoolDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// startUp shows the practice node in the prompt, where the shell's own would name this computer. A login
// shell inside a job has read the computer's start-up files, which set another PATH.
const startUp = `PS1='student@$HOSTNAME:\w\$ '
PATH=%s
`

// writeHome writes what the demo has in its home.
func writeHome(c *Cluster) error {
	return errors.Join(
		os.WriteFile(filepath.Join(c.Home(), "jupyter.sh"), []byte(JobScript(c.dialect)), 0o600),
		os.WriteFile(filepath.Join(c.Home(), ".profile"), fmt.Appendf(nil, startUp, posixsh.Quote(c.path)), 0o600),
	)
}

// Close ends every job, connection and command of the cluster and waits until
// they are gone. Files stay, unless the folder was the cluster's own.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	listener := c.listener
	c.mu.Unlock()

	c.cancel()
	if listener != nil {
		_ = listener.Close()
	}
	c.links.drop()
	c.wg.Wait()
	c.killLeftovers()
	if c.ownDir {
		return os.RemoveAll(c.dir)
	}
	return nil
}

// Alias is the name of the cluster in its ssh_config.
func (c *Cluster) Alias() string { return alias }

// SSHConfig is the path of an ssh_config for the cluster.
func (c *Cluster) SSHConfig() string { return filepath.Join(c.sshDir(), "config") }

// Addr is the address of the login node's SSH server.
func (c *Cluster) Addr() string { return c.addr }

// Home is the student's home folder.
func (c *Cluster) Home() string { return filepath.Join(c.dir, "home", user) }

// Dialect is the batch system of the cluster.
func (c *Cluster) Dialect() string { return c.dialect }

func (c *Cluster) sshDir() string   { return filepath.Join(c.dir, "ssh") }
func (c *Cluster) binDir() string   { return filepath.Join(c.dir, "bin") }
func (c *Cluster) linkDir() string  { return filepath.Join(c.dir, "path") }
func (c *Cluster) callDir() string  { return filepath.Join(c.dir, "calls") }
func (c *Cluster) spoolDir() string { return filepath.Join(c.dir, "spool") }
