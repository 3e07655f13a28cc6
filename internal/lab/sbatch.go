package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	slurmVersion   = "slurm-wlm 22.05.8"
	slurmPartition = "practice"
	slurmAccount   = "practice"
	defaultLimit   = time.Hour
	controllerGone = "Unable to contact slurm controller (connect failure)"
)

// slurmPrograms are Slurm's programs on the login node.
func slurmPrograms() map[string]program {
	return map[string]program{
		"sbatch":   sbatch,
		"squeue":   squeue,
		"scontrol": scontrol,
		"sacct":    sacct,
		"scancel":  scancel,
		"sinfo":    sinfo,
	}
}

var sbatchOptions = optionsOf(
	"A|account=", "a|array=", "b|begin=", "D|chdir=", "comment=", "C|constraint=", "c|cpus-per-task=",
	"d|dependency=", "e|error=", "x|exclude=", "export=", "F|nodefile=", "G|gpus=", "gres=", "gpus-per-node=",
	"gpus-per-task=", "i|input=", "J|job-name=", "L|licenses=", "M|clusters=", "mail-type=", "mail-user=",
	"mem=", "mem-per-cpu=", "mem-per-gpu=", "N|nodes=", "n|ntasks=", "ntasks-per-node=", "w|nodelist=",
	"o|output=", "open-mode=", "p|partition=", "q|qos=", "reservation=", "signal=", "t|time=", "time-min=",
	"wckey=", "wrap=", "container-image=", "container-mounts=", "nice",
	"parsable", "H|hold", "Q|quiet", "v|verbose", "W|wait", "requeue", "no-requeue", "exclusive", "s|oversubscribe",
	"V|version", "test-only",
)

func sbatch(ctx context.Context, c *call) int {
	if slices.Contains(c.args, "--version") || slices.Contains(c.args, "-V") {
		c.printf("%s\n", slurmVersion)
		return 0
	}
	options, rest, err := sbatchOptions.parse(c.args, false)
	if err != nil {
		return c.sbatchUsage(err)
	}
	o := order{
		queue: slurmPartition, account: slurmAccount, workDir: c.dir, limit: defaultLimit,
		command: append([]string{"sbatch"}, c.args...),
	}
	if status := c.readScript(&o, options, rest); status != 0 {
		return status
	}
	inScript, _, err := sbatchOptions.parse(directives(o.text, "#SBATCH"), true)
	if err != nil {
		return c.sbatchUsage(err)
	}
	// The command line wins over the script's own directives.
	if status := c.applySbatch(&o, append(inScript, options...)); status != 0 {
		return status
	}
	return c.submitSlurm(ctx, o, options)
}

func (c *call) sbatchUsage(err error) int {
	if unknown, ok := errors.AsType[*unknownOptionError](err); ok {
		fmt.Fprintf(c.stderr, "sbatch: unrecognized option '%s'\n", unknown.option)
	} else {
		fmt.Fprintf(c.stderr, "sbatch: %v\n", err)
	}
	return c.failf(255, `Try "sbatch --help" for more information`)
}

// readScript takes the script from --wrap, a file or standard input.
func (c *call) readScript(o *order, options []option, rest []string) int {
	o.name = "sbatch"
	if i := slices.IndexFunc(options, func(x option) bool { return x.name == "wrap" }); i >= 0 {
		o.name = "wrap"
		o.text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + options[i].value + "\n"
		return 0
	}
	var text []byte
	var err error
	if len(rest) > 0 {
		o.script = absIn(c.dir, rest[0])
		o.name = filepath.Base(rest[0])
		o.args = rest[1:]
		text, err = os.ReadFile(o.script)
		if errors.Is(err, os.ErrNotExist) {
			return c.failf(1, "sbatch: error: Unable to open file %s", rest[0])
		}
	} else {
		text, err = io.ReadAll(c.stdin)
	}
	o.text = string(text)
	switch {
	case err != nil, len(text) == 0:
		return c.failf(1, "sbatch: error: Batch script is empty!")
	case !strings.HasPrefix(o.text, "#!"):
		return c.failf(1, `sbatch: error: This does not look like a batch script.  The first
sbatch: error: line must start with #! followed by the path to an interpreter.
sbatch: error: For instance: #!/bin/sh`)
	case strings.Contains(o.text, "\r\n"):
		return c.failf(1, `sbatch: error: Batch script contains DOS line breaks (\r\n)
sbatch: error: instead of expected UNIX line breaks (\n).`)
	}
	return 0
}

func (c *call) applySbatch(o *order, options []option) int {
	export, perCPU := "ALL", 0
	for _, x := range options {
		switch x.name {
		case "job-name":
			o.name = x.value
		case "output":
			o.output = x.value
		case "error":
			o.errors = x.value
		case "account":
			o.account = x.value
		case "chdir":
			o.workDir = absIn(c.dir, x.value)
		case "hold":
			o.held = true
		case "open-mode":
			o.appendLog = strings.HasPrefix(x.value, "a")
		case "export":
			export = x.value
		case "gpus", "gpus-per-node", "gpus-per-task", "gres":
			o.gpus = gpuCount(x)
		case "cpus-per-task":
			o.cpus, _ = strconv.Atoi(x.value)
		case "mem":
			o.mb = megabytes(x.value)
			if x.value == "0" {
				o.mb = nodeMB // all of the node's
			}
		case "mem-per-cpu":
			perCPU = megabytes(x.value)
		case "partition":
			if x.value != slurmPartition {
				return c.failf(1, `sbatch: error: invalid partition specified: %s
sbatch: error: Batch job submission failed: Invalid partition name specified`, x.value)
			}
		case "time":
			limit, ok := parseSlurmTime(x.value)
			if !ok {
				return c.failf(255, "sbatch: error: Invalid --time specification")
			}
			o.limit = cmp.Or(limit, defaultLimit)
		}
	}
	o.mb = cmp.Or(o.mb, perCPU*max(o.cpus, 1))
	o.env = c.exported(export)
	return 0
}

// gpuCount is how many GPUs an option asks for: 2, a100:2 or, of --gres, gpu:a100:2.
func gpuCount(o option) int {
	count := 0
	for item := range strings.SplitSeq(o.value, ",") {
		if o.name == "gres" && item != "gpu" && !strings.HasPrefix(item, "gpu:") {
			continue
		}
		n, err := strconv.Atoi(item[strings.LastIndexByte(item, ':')+1:])
		if err != nil {
			n = 1 // only a type
		}
		count += n
	}
	return count
}

// exported is what --export lets through of the submitter's environment.
func (c *call) exported(export string) []string {
	var env []string
	for word := range strings.SplitSeq(export, ",") {
		switch {
		case word == "ALL":
			env = append(env, c.env...)
		case strings.Contains(word, "="):
			env = append(env, word)
		default:
			if value, ok := c.env.lookup(word); ok {
				env = append(env, word+"="+value)
			}
		}
	}
	return env
}

func (c *call) submitSlurm(ctx context.Context, o order, options []option) int {
	has := func(name string) bool {
		return slices.ContainsFunc(options, func(x option) bool { return x.name == name })
	}
	if text, rc, refused := c.c.batch.refusal(); refused {
		return c.failf(rc, "%s", text)
	}
	if c.c.batch.isDown() {
		return c.failf(1, "sbatch: error: Batch job submission failed: %s", controllerGone)
	}
	if text := c.c.batch.impossible(&o); text != "" {
		return c.failf(1, "sbatch: error: Batch job submission failed: %s", text)
	}
	if has("test-only") {
		return c.failf(0, "sbatch: Job %d to start at %s using 1 processors on nodes %s in partition %s",
			firstJob+len(c.c.batch.views()), time.Now().In(c.location()).Format(isoTime), nodes[0], slurmPartition)
	}
	id, err := c.c.batch.submit(o) //nolint:contextcheck // a job outlives the command that submits it
	if err != nil {
		return c.failf(1, "sbatch: error: Batch job submission failed: %v", err)
	}
	if has("parsable") {
		c.printf("%s\n", id)
	} else if !has("quiet") {
		c.printf("Submitted batch job %s\n", id)
	}
	if !has("wait") {
		return 0
	}
	job, err := c.c.batch.await(ctx, id)
	if err != nil {
		return 1
	}
	return job.Exit
}

// setSlurmLogs settles where the job's output goes.
func (j *job) setSlurmLogs() {
	j.Log = j.expandPath(cmp.Or(j.output, "slurm-%j.out"))
	j.errLog = j.Log
	if j.errors != "" {
		j.errLog = j.expandPath(j.errors)
	}
	j.errFile = j.errLog
}

// expandPath fills in a filename pattern of sbatch's: %j, %x and their like.
func (j *job) expandPath(pattern string) string {
	values := map[byte]string{
		'j': j.ID, 'J': j.ID, 'A': j.ID, 'x': j.Name, 'u': user, 'N': cmp.Or(j.Node, nodes[0]), 'n': "0", 't': "0",
		's': "batch", 'a': "4294967294", '%': "%",
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			b.WriteByte(pattern[i])
			continue
		}
		end := i + 1
		for end < len(pattern) && pattern[end] >= '0' && pattern[end] <= '9' {
			end++
		}
		if end == len(pattern) {
			b.WriteString(pattern[i:])
			break
		}
		value, ok := values[pattern[end]]
		if !ok {
			value = pattern[i : end+1]
		}
		if width, err := strconv.Atoi(pattern[i+1 : end]); err == nil {
			value = strings.Repeat("0", max(0, min(width, 10)-len(value))) + value
		}
		b.WriteString(value)
		i = end
	}
	return absIn(j.workDir, b.String())
}

func scancel(_ context.Context, c *call) int {
	options, ids, err := optionsOf("v|verbose", "Q|quiet", "s|signal=", "f|full", "n|name|jobname=", "u|user=", "me",
		"t|state=", "V|version").parse(c.args, true)
	if err != nil {
		return c.failf(1, "scancel: error: %v", err)
	}
	verbose := false
	for _, x := range options {
		switch x.name {
		case "verbose":
			verbose = true
		case "version":
			c.printf("%s\n", slurmVersion)
			return 0
		case "me", "jobname", "user":
			for _, v := range c.c.batch.views() {
				if !v.Over() && (x.name != "jobname" || v.Name == x.value) {
					ids = append(ids, v.ID)
				}
			}
		}
	}
	if len(ids) == 0 && len(options) == 0 {
		return c.failf(1, "scancel: error: No job identification provided")
	}
	status := 0
	for _, id := range ids {
		if _, err := strconv.Atoi(id); err != nil {
			status = c.failf(1, "scancel: error: Invalid job id %s", id)
			continue
		}
		if verbose {
			fmt.Fprintf(c.stderr, "scancel: Terminating job %s\n", id)
		}
		if c.c.batch.isDown() {
			status = c.failf(8, "scancel: error: Kill job error on job id %s: %s", id, controllerGone)
			continue
		}
		_ = c.c.batch.stop(id, stopCancel) // of an unknown or ended job: nothing, and 0
	}
	return status
}

func sinfo(_ context.Context, c *call) int {
	if slices.Contains(c.args, "--version") || slices.Contains(c.args, "-V") {
		c.printf("%s\n", slurmVersion)
		return 0
	}
	if c.c.batch.isDown() {
		return c.failf(1, "slurm_load_partitions: %s", controllerGone)
	}
	if slices.Contains(c.args, "-O") { // as the look of `tunctl init` asks
		for _, n := range c.c.batch.loads() {
			c.printf("%s|%s|1|%d/%d/0/%d|%d|%d|gpu:t4:%d|gpu:t4:%d|\n", slurmPartition, n.state(), n.cpus, nodeCPUs-n.cpus, nodeCPUs, nodeCPUs, nodeMB, nodeGPUs, n.gpus)
		}
		return 0
	}
	c.printf("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n")
	for _, n := range c.c.batch.loads() {
		c.printf("%s*    up    8:00:00      1  %5s %s\n", slurmPartition, n.state(), n.node)
	}
	return 0
}

// nodeLoad is what the jobs on a node use.
type nodeLoad struct {
	node             string
	jobs, cpus, gpus int
}

func (b *batch) loads() []nodeLoad {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]nodeLoad, len(nodes))
	for i, node := range nodes {
		u := b.used(node)
		list[i] = nodeLoad{node, u.jobs, min(u.cpus, nodeCPUs), min(u.gpus, nodeGPUs)}
	}
	return list
}

func (n nodeLoad) state() string {
	if n.jobs == 0 {
		return "idle"
	}
	if n.cpus == nodeCPUs {
		return "alloc"
	}
	return "mix"
}
