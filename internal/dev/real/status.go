package real

import (
	"fmt"
	"strings"
)

// Status lists what runs where, for the user.
func (c *Cluster) Status() (string, error) {
	var b strings.Builder
	laptop, err := c.laptopAddr()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "%-7s %-12s %s\n", "laptop", laptop, c.plan.device())
	if c.record.Delay.alive() {
		fmt.Fprintf(&b, "%-7s packets are delayed\n", "")
	}
	for _, n := range nodes {
		fmt.Fprintf(&b, "%-7s %-12s %s\n", n.name, c.plan.main(n), c.running(n.name))
	}
	questions := [][]string{{"sinfo"}, {"squeue"}}
	if c.options.GridEngine {
		questions = [][]string{{"qhost"}, {"qstat", "-u", "*"}}
	}
	for _, ask := range questions {
		out, err := c.Exec("ctl", ask...)
		if err != nil {
			out = err.Error() + "\n"
		}
		b.WriteString("\n" + out)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// running lists the daemons of a node.
func (c *Cluster) running(name string) string {
	pid, err := c.pid(name)
	if err != nil {
		return "down"
	}
	var names []string
	for _, p := range children(pid) {
		if s, err := readStat(fmt.Sprintf("/proc/%d", p.PID)); err == nil {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " ")
}

// Shell is the command that gives a terminal a shell: as hpcuser on login1, or
// as root on the node that is named.
func (c *Cluster) Shell(name string) ([]string, error) {
	if name != "" {
		pid, err := c.pid(name)
		return inside(pid, "bash", "-l"), err
	}
	pid, err := c.pid("login1")
	if err != nil {
		return nil, err
	}
	become, err := asUser("hpcuser", "bash", "-l")
	return inside(pid, become...), err
}
