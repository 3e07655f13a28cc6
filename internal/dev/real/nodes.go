package real

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func (c *Cluster) startNodes() error {
	for _, n := range nodes {
		if err := c.startNode(n); err != nil {
			return fmt.Errorf("start node %s: %w", n.name, err)
		}
	}
	return nil
}

// startNode starts a node's pid 1 and connects it to the switch.
func (c *Cluster) startNode(n node) error {
	for _, sub := range []string{"log", "lib"} {
		if err := os.MkdirAll(c.path("nodes", n.name, sub), 0o755); err != nil {
			return err
		}
	}
	if c.options.Adopt && strings.HasPrefix(n.name, "cn") {
		if err := os.Mkdir(cgroup(c.dir, n.name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("no control groups here: %w", err)
		}
	}
	files, err := c.nodeFiles(n)
	if err != nil {
		return err
	}
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	logFile := c.path("nodes", n.name, "init.log")
	p, err := c.spawn(command(newNode, "node", c.dir, n.name), bytes.NewReader(text), logFile)
	if p.PID != 0 {
		c.nodes.Lock()
		c.record.Nodes[n.name] = p
		c.nodes.Unlock()
	}
	if err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	return c.plug(n, p.PID)
}

// pid is the pid 1 of a node, as seen from the machine.
func (c *Cluster) pid(name string) (int, error) {
	if _, err := nodeByName(name); err != nil {
		return 0, err
	}
	p := c.process(name)
	if !p.alive() {
		return 0, fmt.Errorf("node %q is down", name)
	}
	return p.PID, nil
}

// process is a node's pid 1, if it was started.
func (c *Cluster) process(name string) process {
	c.nodes.RLock()
	defer c.nodes.RUnlock()
	return c.record.Nodes[name]
}

// root is the path of a node's file, as seen from the machine.
func (c *Cluster) root(name, path string) (string, error) {
	pid, err := c.pid(name)
	if err != nil {
		return "", err
	}
	return filepath.Join("/proc", strconv.Itoa(pid), "root", path), nil
}

// Exec runs a command as root on a node and returns what it printed.
func (c *Cluster) Exec(node string, argv ...string) (string, error) {
	pid, err := c.pid(node)
	if err != nil {
		return "", err
	}
	return run("", inside(pid, argv...)...)
}

// As runs a command as a user on login1, in their home.
func (c *Cluster) As(name string, argv ...string) (string, error) {
	pid, err := c.pid("login1")
	if err != nil {
		return "", err
	}
	become, err := asUser(name, argv...)
	if err != nil {
		return "", err
	}
	return run("", inside(pid, become...)...)
}

func asUser(name string, argv ...string) ([]string, error) {
	u, err := userByName(name)
	if err != nil {
		return nil, err
	}
	become := []string{
		"setpriv", "--reuid", u.name, "--regid", u.name, "--init-groups", "env", "-C", "/home/" + u.name,
		"USER=" + u.name, "LOGNAME=" + u.name, "HOME=/home/" + u.name, "SHELL=" + u.shell,
	}
	return append(become, argv...), nil
}

// Processes are the command lines of hpcuser's processes on a node. A connection of
// tunctl's is one of them, "sshd: hpcuser".
func (c *Cluster) Processes(node string) ([]string, error) {
	// With no process at all, ps fails.
	out, err := c.Exec(node, "sh", "-c", "ps -u hpcuser -o args= || true")
	return slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return line == "" }), err
}

// Crash ends a node as a power cut does: no connection is closed, the others
// hear nothing more.
func (c *Cluster) Crash(name string) error {
	n, err := nodeByName(name)
	if err != nil {
		return err
	}
	if _, err := c.pid(name); err != nil {
		return err
	}
	var down, del strings.Builder
	for _, at := range n.ports {
		fmt.Fprintf(&down, "link set %s-%s down\n", n.name, at.net)
		fmt.Fprintf(&del, "link del %s-%s\n", n.name, at.net)
	}
	if err := c.onSwitch(down.String()); err != nil {
		return err
	}
	p := c.process(name)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.gone() {
		return fmt.Errorf("node %q does not end", name)
	}
	// An orphaned socket can hold the node's namespace, and with it its devices.
	_ = c.onSwitch(del.String())
	c.nodes.Lock()
	delete(c.record.Nodes, name)
	c.nodes.Unlock()
	return c.save()
}

// Boot starts a node that has crashed, with all of its services.
func (c *Cluster) Boot(name string) error {
	n, err := nodeByName(name)
	if err != nil {
		return err
	}
	if _, err := c.pid(name); err == nil {
		return fmt.Errorf("node %q is up", name)
	}
	if err := c.startNode(n); err != nil {
		return err
	}
	return c.startServicesOf(n.name)
}
