package real

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// service is a daemon of a node.
type service struct {
	node, name string
	argv       []string
	pidFile    string
	port       int // that it listens on once it is ready, where the pid file says too little
}

var (
	slurmctld = service{
		node: "ctl", name: "slurmctld", argv: asSystem("slurm", "slurmctld"),
		pidFile: "/run/slurm/slurmctld.pid", port: 6817,
	}
	slurmdbd = service{
		node: "ctl", name: "slurmdbd", argv: asSystem("slurm", "slurmdbd"),
		pidFile: "/run/slurm/slurmdbd.pid", port: 6819,
	}
)

func munged(node string) service {
	return service{
		node: node, name: "munged", argv: asSystem("munge", "munged", "--num-threads=2"),
		pidFile: "/run/munge/munged.pid",
	}
}

func slurmd(node string) service {
	return service{node: node, name: "slurmd", argv: []string{"slurmd"}, pidFile: "/run/slurm/slurmd.pid"}
}

// asSystem runs a daemon as its own user.
func asSystem(user string, argv ...string) []string {
	return append([]string{"setpriv", "--reuid", user, "--regid", user, "--init-groups"}, argv...)
}

func (s sshd) daemon() service {
	return service{
		node: s.node, name: s.alias, pidFile: s.pidFile(),
		argv: []string{"/run/lab/" + s.service, "-f", s.configFile(), "-E", "/var/log/" + s.alias + ".log"},
	}
}

// startServices starts everything, the controller before those who report to it.
func (c *Cluster) startServices() error {
	for _, together := range [][]string{{"ctl", "login1", "jump"}, {"cn01", "cn02"}} {
		if err := c.startServicesOf(together...); err != nil {
			return err
		}
	}
	if c.options.GridEngine {
		return c.awaitExecutionHosts()
	}
	return c.awaitNodes("cn01", "cn02")
}

// startServicesOf starts the services of several nodes at once.
func (c *Cluster) startServicesOf(names ...string) error {
	problems := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { problems[i] = c.bootServices(name) })
	}
	wg.Wait()
	return errors.Join(problems...)
}

func (c *Cluster) bootServices(name string) error {
	n, err := nodeByName(name)
	if err != nil {
		return err
	}
	ge := c.options.GridEngine
	var all []service
	switch {
	case !n.slurm:
	case ge:
		if err := c.gridEngine(name, "link"); err != nil {
			return err
		}
	default:
		all = append(all, munged(name))
	}
	for _, s := range sshds {
		if s.node == name {
			all = append(all, s.daemon())
		}
	}
	if strings.HasPrefix(name, "cn") {
		if ge {
			all = append(all, execd(name))
		} else {
			all = append(all, slurmd(name))
		}
	}
	for _, s := range all {
		if err := c.startService(s); err != nil {
			return err
		}
	}
	if name != "ctl" {
		return nil
	}
	if ge {
		return c.startGridEngine()
	}
	if c.options.Accounting {
		if err := c.startAccounting(); err != nil {
			return err
		}
	}
	return c.startService(slurmctld)
}

func (c *Cluster) startService(s service) error {
	pid, err := c.pid(s.node)
	if err != nil {
		return err
	}
	if _, err := c.servicePID(s); err == nil {
		return fmt.Errorf("%s runs already on %s", s.name, s.node)
	}
	if _, err := run("", inside(pid, s.argv...)...); err != nil {
		return err
	}
	up := func() bool {
		_, err := c.servicePID(s)
		return err == nil && (s.port == 0 || listening(pid, s.port))
	}
	if !poll(up) {
		return fmt.Errorf("%s does not start on %s; see %s", s.name, s.node, c.path("nodes", s.node, "log"))
	}
	return nil
}

// stopService ends a service and waits for its end; its children live on.
func (c *Cluster) stopService(s service) error {
	p, err := c.servicePID(s)
	if err != nil {
		return err
	}
	// A frozen one gets the signal when it continues.
	if err := cmp.Or(p.signal(syscall.SIGTERM), p.signal(sigCont)); err != nil {
		return err
	}
	if !p.gone() {
		return fmt.Errorf("%s does not stop on %s", s.name, s.node)
	}
	// sshd leaves its file when it ends in a hurry.
	if file, err := c.root(s.node, s.pidFile); err == nil {
		_ = os.Remove(file)
	}
	return nil
}

// signalService signals a service, and not its children.
func (c *Cluster) signalService(s service, sig syscall.Signal) error {
	p, err := c.servicePID(s)
	if err != nil {
		return err
	}
	return p.signal(sig)
}

// servicePID finds a service that runs, as the machine sees it.
func (c *Cluster) servicePID(s service) (process, error) {
	file, err := c.root(s.node, s.pidFile)
	if err != nil {
		return process{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return process{}, fmt.Errorf("%s is not up on %s: %w", s.name, s.node, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return process{}, fmt.Errorf("%s on %s: %w", s.name, s.node, err)
	}
	return c.fromNode(s.node, pid)
}

// fromNode is the process that has pid inside a node.
func (c *Cluster) fromNode(node string, pid int) (process, error) {
	first, err := c.pid(node)
	if err != nil {
		return process{}, err
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first))
	if err != nil {
		return process{}, err
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if at, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || at != space {
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || innerPID(string(status)) != pid {
			continue
		}
		outer, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return process{}, err
		}
		return lookup(outer)
	}
	return process{}, fmt.Errorf("no process %d on %s", pid, node)
}

// innerPID is a process's number in its own pid namespace: the last of NSpid in
// /proc/PID/status.
func innerPID(status string) int {
	for line := range strings.Lines(status) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(ids)
			pid, err := strconv.Atoi(all[len(all)-1])
			if err == nil {
				return pid
			}
		}
	}
	return 0
}
