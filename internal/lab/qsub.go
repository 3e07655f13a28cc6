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
	pbsServer  = "practice"
	pbsVersion = "pbs_version = 23.06.06"
	pbsQueue   = "normal"
	pbsNoReach = "Connection refused\n%s: cannot connect to server " + pbsServer + " (errno=15010)"
)

// The exit codes of PBS's programs that matter to a client.
const (
	pbsUnknownJob   = 153
	pbsUnknownQueue = 170
	pbsFinished     = 35
	pbsBadResource  = 166
	pbsNoServer     = 162
	pbsTooMuch      = 188
)

// pbsPrograms are PBS's programs on the login node.
func pbsPrograms() map[string]program {
	return map[string]program{
		"qsub":    qsub,
		"qstat":   qstat,
		"qselect": qselect,
		"qdel":    qdel,
		"qalter":  qalter,

		"pbsnodes":   pbsnodes,
		"pbs_attach": pbsAttach,
	}
}

// pbsAttach makes a session a part of a job that runs. Neither its environment nor its control group
// changes by that.
func pbsAttach(_ context.Context, c *call) int {
	options, command, err := optionsOf("j=", "p=").parse(c.args, true)
	if err != nil || len(options) != 2 || options[0].name != "j" || len(command) > 0 {
		return c.failf(2, "usage: pbs_attach [-j jobid] [-m port] -p pid")
	}
	runs := func(v view) bool { return pbsID(v.ID) == options[0].value && v.State == "RUNNING" }
	if !slices.ContainsFunc(c.c.batch.views(), runs) {
		return c.failf(1, "pbs_attach: tm_attach: no matching job found (17006)")
	}
	return 0
}

// pbsnodes is the table of pbsnodes -aSj, whatever else is asked.
func pbsnodes(_ context.Context, c *call) int {
	if c.c.batch.isDown() {
		return c.failf(pbsNoServer, pbsNoReach, "pbsnodes")
	}
	c.printf(`                                                        mem       ncpus   nmics   ngpus
vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs
--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------
`)
	for _, n := range c.c.batch.loads() {
		state := "free"
		if n.cpus == nodeCPUs {
			state = "job-busy"
		}
		c.printf("%-15s %-15s %6d %5d %6d %12s %7s %7s %7s %s\n", n.node, state, n.jobs, n.jobs, 0, fmt.Sprintf("%[1]dgb/%[1]dgb", nodeMB/1000),
			fmt.Sprintf("%d/%d", nodeCPUs-n.cpus, nodeCPUs), "0/0", fmt.Sprintf("%d/%d", nodeGPUs-n.gpus, nodeGPUs), "--")
	}
	return 0
}

var qsubOptions = optionsOf(
	"a=", "A=", "c=", "C=", "e=", "f", "h", "I", "j=", "J=", "k=", "l=", "m=", "M=", "N=", "o=", "p=", "P=", "q=", "r=",
	"R=", "S=", "u=", "W=", "v=", "V", "z",
)

const qsubUsage = `usage: qsub [-a date_time] [-A account_string] [-c interval]
	[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
	[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
	[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
	[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
	[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
       qsub --version`

func qsub(ctx context.Context, c *call) int {
	if slices.Contains(c.args, "--version") {
		c.printf("%s\n", pbsVersion)
		return 0
	}
	options, rest, err := qsubOptions.parse(c.args, false)
	if err != nil {
		return c.qsubUsage(err)
	}
	o := order{
		queue: pbsQueue, workDir: c.dir, limit: defaultLimit, spools: true,
		command: c.args,
	}
	if status := c.readPBSScript(&o, rest); status != 0 {
		return status
	}
	words := directives(o.text, "#PBS")
	inScript, _, err := qsubOptions.parse(words, true)
	if err != nil {
		if unknown, ok := errors.AsType[*unknownOptionError](err); ok {
			fmt.Fprintf(c.stderr, "qsub: invalid option -- '%s'\n", unknown.option)
		}
		return c.failf(1, "qsub: directive error: %s ", strings.Join(words, " "))
	}
	if status := c.applyQsub(&o, append(inScript, options...)); status != 0 {
		return status
	}
	if text, rc, refused := c.c.batch.refusal(); refused {
		return c.failf(rc, "%s", text)
	}
	if c.c.batch.isDown() {
		return c.failf(pbsNoServer, pbsNoReach, "qsub")
	}
	id, err := c.c.batch.submit(o) //nolint:contextcheck // a job outlives the command that submits it
	if err != nil {
		return c.failf(1, "qsub: %v", err)
	}
	if !slices.Contains(options, option{"z", ""}) {
		c.printf("%s\n", id)
	}
	if !slices.Contains(options, option{"W", "block=true"}) {
		return 0
	}
	job, err := c.c.batch.await(ctx, id)
	if err != nil {
		return 1
	}
	return job.Exit
}

func (c *call) qsubUsage(err error) int {
	if unknown, ok := errors.AsType[*unknownOptionError](err); ok {
		fmt.Fprintf(c.stderr, "qsub: invalid option -- '%s'\n", strings.TrimLeft(unknown.option, "-"))
	} else {
		fmt.Fprintf(c.stderr, "qsub: %v\n", err)
	}
	return c.failf(2, qsubUsage)
}

func (c *call) readPBSScript(o *order, rest []string) int {
	o.name = "STDIN"
	var text []byte
	var err error
	switch {
	case len(rest) == 0 || rest[0] == "-":
		text, err = io.ReadAll(c.stdin)
	default:
		o.script = absIn(c.dir, rest[0])
		o.name = filepath.Base(rest[0])
		text, err = os.ReadFile(o.script)
	}
	if err != nil {
		return c.failf(1, "qsub: script file:: No such file or directory")
	}
	if strings.Contains(string(text), "\r\n") {
		return c.failf(1, "qsub: script contains cr, lf")
	}
	o.text = string(text)
	return 0
}

func (c *call) applyQsub(o *order, options []option) int {
	resources := map[string]string{}
	o.env = []string{}
	for _, x := range options {
		switch x.name {
		case "N":
			if x.value == "" || strings.ContainsAny(x.value, " !/\t") {
				return c.failf(2, "qsub: illegal -N value\n"+qsubUsage)
			}
			o.name = x.value
		case "o":
			o.output = x.value
		case "e":
			o.errors = x.value
		case "j":
			o.join = x.value == "oe" || x.value == "eo"
		case "k":
			o.keep = x.value
			o.spools = !strings.Contains(x.value, "o")
		case "q":
			if queue, _, _ := strings.Cut(x.value, "@"); queue != pbsQueue {
				return c.failf(pbsUnknownQueue, "qsub: Unknown queue")
			}
		case "P":
			o.project = x.value
		case "h":
			o.held = true
		case "V":
			o.env = append(o.env, c.env...)
		case "v":
			o.variables = append(o.variables, c.variables(x.value)...)
		case "l":
			for _, pair := range splitList(x.value) {
				name, value, _ := strings.Cut(pair, "=")
				resources[name] = value
			}
		}
	}
	o.env = append(o.env, o.variables...)
	return c.applyResources(o, resources)
}

// variables are -v's: given as NAME=VALUE, or taken from the environment.
func (c *call) variables(list string) []string {
	words := splitList(list)
	for i, word := range words {
		if !strings.Contains(word, "=") {
			words[i] = word + "=" + c.getenv(word)
		}
	}
	return words
}

func (c *call) applyResources(o *order, resources map[string]string) int {
	if text, ok := resources["walltime"]; ok {
		limit, ok := parseWalltime(text)
		if !ok {
			return c.failf(pbsBadResource, "qsub: Illegal attribute or resource value Resource_List.walltime")
		}
		o.limit = cmp.Or(limit, defaultLimit)
	}
	o.selected = cmp.Or(resources["select"], "1:ncpus=1")
	chunks := 1
	for i, item := range strings.Split(o.selected, ":") {
		name, value, _ := strings.Cut(item, "=")
		n, _ := strconv.Atoi(cmp.Or(value, name))
		if i == 0 && value == "" {
			chunks = n
		}
		switch name {
		case "ncpus":
			o.cpus = n
		case "ngpus":
			o.gpus = chunks * n
		case "mem":
			o.mb = megabytes(value)
		}
	}
	if c.c.batch.impossible(o) != "" {
		return c.failf(pbsTooMuch, "qsub: Job violates queue and/or server resource limits")
	}
	return 0
}

// setPBSLogs settles where the job's output goes: to NAME.oSEQ in the folder it was
// submitted from, or at home with -k but without its d.
func (j *job) setPBSLogs(home string) {
	path := func(asked, kind, letter string) string {
		if _, after, ok := strings.Cut(asked, ":"); ok && filepath.VolumeName(asked) == "" {
			asked = after // the host that was asked for is always this one
		}
		name := fmt.Sprintf("%s.%s%d", j.Name, letter, j.seq)
		switch {
		case strings.Contains(j.keep, letter) && !strings.Contains(j.keep, "d"):
			return filepath.Join(home, name)
		case asked == "":
			return filepath.Join(j.workDir, name)
		}
		asked = absIn(j.workDir, asked)
		if info, err := os.Stat(asked); err == nil && info.IsDir() {
			return filepath.Join(asked, j.ID+"."+kind)
		}
		return asked
	}
	j.Log = path(j.output, "OU", "o")
	j.errLog = path(j.errors, "ER", "e")
	if j.join {
		j.errFile = j.Log
	} else {
		j.errFile = j.errLog
	}
}

func qdel(_ context.Context, c *call) int {
	_, ids, err := optionsOf("W=", "x").parse(c.args, true)
	if err != nil || len(ids) == 0 {
		return c.failf(2, "usage:\n\tqdel [-W force|suppress_email=X] [-x] job_identifier...\n\tqdel --version")
	}
	if c.c.batch.isDown() {
		return c.failf(pbsNoServer, "Connection refused\nCouldn't connect to cluster: %s", pbsServer)
	}
	status := 0
	for _, id := range ids {
		if number, _, _ := strings.Cut(id, "."); !isNumber(number) {
			status = c.failf(1, "qdel: illegally formed job identifier: %s", id)
			continue
		}
		switch err := c.c.batch.stop(id, stopCancel); {
		case errors.Is(err, errUnknownJob):
			status = c.failf(pbsUnknownJob, "qdel: Unknown Job Id %s", pbsID(id))
		case errors.Is(err, errFinishedJob):
			status = c.failf(pbsFinished, "qdel: Job has finished %s", pbsID(id))
		}
	}
	return status
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// pbsID is an id with its server's name.
func pbsID(id string) string {
	if strings.Contains(id, ".") {
		return id
	}
	return id + "." + pbsServer
}

// pbsTime prints a time as PBS's programs do.
func (c *call) pbsTime(t time.Time) string { return t.In(c.location()).Format(cTime) }
