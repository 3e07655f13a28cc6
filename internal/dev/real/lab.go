package real

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lab is a lab in the hands of one test: what fails, fails the test, and what the
// test breaks is repaired when it ends.
type Lab struct {
	t testing.TB
	c *Cluster
}

// Start gives a test a lab that is its own until it ends, and that a later test may
// get after it: tests that run in parallel have one each, and a test's parts have the
// test's. Main ends them all. See Need for when a test is skipped instead.
func Start(t testing.TB) *Lab {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start for a lab with options. A machine that cannot adopt logins skips a test
// that needs it: nothing can be installed for that.
func StartWith(t testing.TB, o Options) *Lab {
	t.Helper()
	Need(t, "ssh", o.scheduler())
	if o.Adopt && !isFolder(freezer) {
		const why = "this kernel has no control groups of version 1"
		tests.skip(t.Name(), why)
		t.Skip("real parts: " + why)
	}
	c, err := tests.acquire(t, o)
	if err != nil {
		t.Fatalf("start a lab: %v", err)
	}
	return &Lab{t, c}
}

// Share gives a test the lab that all tests share which break nothing, so that many
// can wait for its Slurm at once.
func Share(t testing.TB) *Lab {
	t.Helper()
	Need(t, "ssh", "slurm")
	c, err := tests.share(t)
	if err != nil {
		t.Fatalf("start the shared lab: %v", err)
	}
	return &Lab{t, c}
}

func (l *Lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("lab: %v", err)
	}
}

// undo reverts something when the test ends. That may have been done already: most of it
// fails then, which is fine.
func (l *Lab) undo(revert func() error) {
	l.t.Cleanup(func() { _ = revert() })
}

// Dir is the lab's folder; below it, home is the cluster's /home.
func (l *Lab) Dir() string { return l.c.dir }

// SSHConfig is the path of the ssh_config that leads to the lab.
func (l *Lab) SSHConfig() string { return l.c.SSHConfig() }

// KeyFile is the path of a private key; see Cluster.KeyFile.
func (l *Lab) KeyFile(name string) string { return l.c.KeyFile(name) }

// NodeAddr is the address a node is known by.
func (l *Lab) NodeAddr(node string) string {
	l.t.Helper()
	addr, err := l.c.NodeAddr(node)
	l.must(err)
	return addr
}

// Code is a one-time code that has not been used.
func (l *Lab) Code() string {
	l.t.Helper()
	code, err := l.c.Code()
	l.must(err)
	return code
}

// Exec runs a command as root on a node and returns what it printed.
func (l *Lab) Exec(node string, argv ...string) (string, error) { return l.c.Exec(node, argv...) }

// As runs a command as a user on login1 and returns what it printed.
func (l *Lab) As(user string, argv ...string) (string, error) { return l.c.As(user, argv...) }

// Submit submits a job as hpcuser; see Cluster.Submit. The job ends with the test.
func (l *Lab) Submit(script string, args ...string) string {
	l.t.Helper()
	id, err := l.c.Submit(script, args...)
	l.must(err)
	l.undo(func() error { return l.c.Cancel(id) })
	return id
}

// WaitJob waits up to a minute until a job is in one of the states, and returns
// which.
func (l *Lab) WaitJob(id string, states ...string) string {
	l.t.Helper()
	var state string
	if !poll(func() bool { state = l.c.JobState(id); return slices.Contains(states, state) }) {
		l.t.Fatalf("lab: job %s is %q after a minute, not %q\n%s", id, state, states, l.c.queue())
	}
	return state
}

// Cancel ends a job.
func (l *Lab) Cancel(id string) {
	l.t.Helper()
	l.must(l.c.Cancel(id))
}

// Cut takes a part of the network away; see Cluster.Cut.
func (l *Lab) Cut(where string) {
	l.t.Helper()
	l.must(l.c.Cut(where))
	l.undo(func() error { return l.c.Restore(where) })
}

// Restore undoes a Cut.
func (l *Lab) Restore(where string) {
	l.t.Helper()
	l.must(l.c.Restore(where))
}

// Roam moves the laptop to another address, and returns it.
func (l *Lab) Roam() string {
	l.t.Helper()
	addr, err := l.c.Roam()
	l.must(err)
	return addr
}

// Delay makes round trips longer and loses some packets; see Cluster.Delay.
func (l *Lab) Delay(rtt time.Duration, loss float64) {
	l.t.Helper()
	l.must(l.c.Delay(rtt, loss))
	l.undo(func() error { return l.c.Delay(0, 0) })
}

// FreezeConns stops an sshd's live connections, by its alias in the ssh_config:
// they stay open and answer nothing.
func (l *Lab) FreezeConns(alias string) {
	l.t.Helper()
	l.must(l.c.FreezeConns(alias))
	l.undo(func() error { return l.c.ContConns(alias) })
}

// ContConns continues frozen connections.
func (l *Lab) ContConns(alias string) {
	l.t.Helper()
	l.must(l.c.ContConns(alias))
}

// KillConns ends an sshd's live connections.
func (l *Lab) KillConns(alias string) {
	l.t.Helper()
	l.must(l.c.KillConns(alias))
}

// FreezeListener stops an sshd that listens: connects complete, nothing is said.
func (l *Lab) FreezeListener(alias string) {
	l.t.Helper()
	l.must(l.c.FreezeListener(alias))
	l.undo(func() error { return l.c.ContListener(alias) })
}

// ContListener continues a frozen listener.
func (l *Lab) ContListener(alias string) {
	l.t.Helper()
	l.must(l.c.ContListener(alias))
}

// StopSSHD ends an sshd: its port refuses, its live connections stay.
func (l *Lab) StopSSHD(alias string) {
	l.t.Helper()
	l.must(l.c.StopSSHD(alias))
	l.undo(func() error { return l.c.StartSSHD(alias) })
}

// StartSSHD starts an sshd that was stopped.
func (l *Lab) StartSSHD(alias string) {
	l.t.Helper()
	l.must(l.c.StartSSHD(alias))
}

// RestartSSHD restarts an sshd; its live connections stay.
func (l *Lab) RestartSSHD(alias string) {
	l.t.Helper()
	l.must(l.c.RestartSSHD(alias))
}

// RotateHostKey gives an sshd new host keys.
func (l *Lab) RotateHostKey(alias string) {
	l.t.Helper()
	l.must(l.c.RotateHostKey(alias))
	l.undo(func() error { return l.c.RestoreHostKey(alias) })
}

// RestoreHostKey gives an sshd back the keys that known_hosts has.
func (l *Lab) RestoreHostKey(alias string) {
	l.t.Helper()
	l.must(l.c.RestoreHostKey(alias))
}

// StopController ends slurmctld; jobs run on.
func (l *Lab) StopController() {
	l.t.Helper()
	l.must(l.c.StopController())
	l.undo(l.c.StartController)
}

// StartController starts slurmctld again.
func (l *Lab) StartController() {
	l.t.Helper()
	l.must(l.c.StartController())
}

// FreezeController makes slurmctld stall: commands wait, and time out.
func (l *Lab) FreezeController() {
	l.t.Helper()
	l.must(l.c.FreezeController())
	l.undo(l.c.ContController)
}

// ContController continues a frozen controller.
func (l *Lab) ContController() {
	l.t.Helper()
	l.must(l.c.ContController())
}

// WrapSrun replaces srun on login1; see Cluster.WrapSrun.
func (l *Lab) WrapSrun(script string) {
	l.t.Helper()
	l.must(l.c.WrapSrun(script))
	l.undo(l.c.UnwrapSrun)
}

// WrapSbatch replaces sbatch on login1; see Cluster.WrapSbatch.
func (l *Lab) WrapSbatch(script string) {
	l.t.Helper()
	l.must(l.c.WrapSbatch(script))
	l.undo(l.c.UnwrapSbatch)
}

// Processes are the command lines of hpcuser's processes on a node.
func (l *Lab) Processes(node string) []string {
	l.t.Helper()
	found, err := l.c.Processes(node)
	l.must(err)
	return found
}

// CrashNode ends a node as a power cut does.
func (l *Lab) CrashNode(node string) {
	l.t.Helper()
	l.must(l.c.Crash(node))
	l.undo(func() error { return l.c.Boot(node) })
}

// BootNode starts a node that has crashed.
func (l *Lab) BootNode(node string) {
	l.t.Helper()
	l.must(l.c.Boot(node))
}

// Secrets are all that must never be seen outside the lab: passwords, the seed of the
// one-time codes, and a line of every private key.
func (l *Lab) Secrets() []string {
	l.t.Helper()
	secrets := []string{Password, Passphrase, codeSecret, hex.EncodeToString([]byte(codeSecret))}
	files, err := filepath.Glob(filepath.Join(l.Dir(), "keys", "*"))
	l.must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		l.must(err)
		// The first line of each says what it is, and the second is the same for keys of one kind.
		if lines := strings.Split(string(text), "\n"); strings.HasPrefix(lines[0], "-----BEGIN") && len(lines) > 3 {
			secrets = append(secrets, lines[2])
		}
	}
	return secrets
}
