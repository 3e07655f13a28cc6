package real

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed gridengine.sh
var gridEngineScript string

// geProgram is a daemon of Grid Engine, which goes to the background by itself.
func geProgram(name string) []string {
	return []string{"env", "SGE_ROOT=/var/lib/gridengine", "SGE_CELL=default", "/usr/lib/gridengine/" + name}
}

// qmaster is the server of Grid Engine. Its port is in /etc/services.
var qmaster = service{
	node: "ctl", name: "sge_qmaster", argv: geProgram("sge_qmaster"),
	pidFile: "/var/spool/gridengine/qmaster/qmaster.pid", port: 6444,
}

func execd(node string) service {
	return service{
		node: node, name: "sge_execd", argv: geProgram("sge_execd"),
		pidFile: "/var/spool/gridengine/execd/" + node + "/execd.pid",
	}
}

// gridEngine does a part of gridengine.sh on a node.
func (c *Cluster) gridEngine(node, part string) error {
	pid, err := c.pid(node)
	if err != nil {
		return err
	}
	if _, err := run(gridEngineScript, inside(pid, "sh", "-s", part)...); err != nil {
		return fmt.Errorf("set up Grid Engine on %s (%s): %w", node, part, err)
	}
	return nil
}

// startGridEngine starts the server, and sets it up: queues all.q on both compute nodes, short.q
// with ten minutes at most, staff.q for alice; two GPUs on cn02; the parallel environment smp.
func (c *Cluster) startGridEngine() error {
	if err := c.gridEngine("ctl", "cell"); err != nil {
		return err
	}
	if err := c.startService(qmaster); err != nil {
		return err
	}
	return c.gridEngine("ctl", "configure")
}

// awaitExecutionHosts waits until both compute nodes have reported to the server.
func (c *Cluster) awaitExecutionHosts() error {
	reported := func() bool {
		out, err := c.Exec("ctl", "qhost")
		if err != nil {
			return false
		}
		up := 0
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 6 && strings.HasPrefix(f[0], "cn0") && f[6] != "-" {
				up++
			}
		}
		return up == 2
	}
	if !poll(reported) {
		state, _ := c.Exec("ctl", "qhost")
		return fmt.Errorf("the execution hosts do not report:\n%s", state)
	}
	return nil
}
