package real

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// awaitNodes waits until compute nodes take jobs.
func (c *Cluster) awaitNodes(names ...string) error {
	last := ""
	usable := func() bool {
		out, err := c.Exec("ctl", "sinfo", "-h", "-N", "-p", "normal", "-t", "idle,mix,alloc", "-n", strings.Join(names, ","), "-o", "%N")
		if err != nil {
			last = err.Error()
		}
		return len(strings.Fields(out)) == len(names)
	}
	if !poll(usable) {
		state, _ := c.Exec("ctl", "sinfo", "-N", "-l")
		return fmt.Errorf("the compute nodes do not come up: %s\n%s", last, state)
	}
	return nil
}

// awaitRegistration waits until a compute node has registered with a controller that
// started after it: a few seconds after the start, the controller asks for that.
func (c *Cluster) awaitRegistration(node string) error {
	last := ""
	registered := func() bool {
		out, err := c.Exec("ctl", "scontrol", "show", "node", node)
		last = out
		return err == nil && !strings.Contains(out, "SlurmdStartTime=None")
	}
	if !poll(registered) {
		return fmt.Errorf("%s does not register with the controller: %s", node, last)
	}
	return nil
}

// clear ends all jobs of Slurm, and waits until the compute nodes have none.
func (c *Cluster) clear() error {
	if c.options.GridEngine {
		return nil
	}
	jobs, _ := c.Exec("ctl", "squeue", "-h", "-o", "%A")
	if ids := strings.Fields(jobs); len(ids) > 0 {
		_, _ = c.Exec("ctl", append([]string{"scancel"}, ids...)...) // some may have ended
	}
	free := func() bool {
		idle, err := c.Exec("ctl", "sinfo", "-h", "-N", "-p", "normal", "-t", "idle", "-o", "%N")
		return err == nil && len(strings.Fields(idle)) == 2
	}
	if !poll(free) {
		return fmt.Errorf("the compute nodes do not become free:\n%s", c.queue())
	}
	return nil
}

// queue is what Slurm says of its jobs and nodes.
func (c *Cluster) queue() string {
	jobs, _ := c.Exec("ctl", "squeue", "-o", "%i %j %T %r %N %m")
	nodes, _ := c.Exec("ctl", "sinfo", "-N", "-l")
	return jobs + nodes
}

// Submit submits a job as hpcuser from their home and returns its id. The script
// is its text, or a path on login1 when it does not start with "#!".
func (c *Cluster) Submit(script string, args ...string) (string, error) {
	if strings.HasPrefix(script, "#!") {
		name, err := c.placeScript(script)
		if err != nil {
			return "", err
		}
		script = name
	}
	out, err := c.As("hpcuser", append(append([]string{"sbatch", "--parsable"}, args...), script)...)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	return id, nil
}

func (c *Cluster) placeScript(text string) (string, error) {
	u, err := userByName("hpcuser")
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(c.path("home", u.name), "job-*.sh")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if err := cmp.Or(err, f.Chown(u.id, u.id), f.Close()); err != nil {
		return "", err
	}
	return strings.TrimPrefix(f.Name(), c.dir), nil
}

// JobState is a job's state in Slurm's word, such as PENDING or RUNNING; empty
// when the controller does not know the job, or does not answer.
func (c *Cluster) JobState(id string) string {
	out, err := c.Exec("ctl", "scontrol", "show", "job", "-o", id)
	if err != nil {
		return ""
	}
	for field := range strings.FieldsSeq(out) {
		if state, ok := strings.CutPrefix(field, "JobState="); ok {
			return state
		}
	}
	return ""
}

// Cancel ends a job, as its owner would from another terminal.
func (c *Cluster) Cancel(id string) error {
	_, err := c.Exec("ctl", "scancel", id)
	return err
}
