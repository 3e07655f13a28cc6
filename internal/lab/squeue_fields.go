package lab

import (
	"cmp"
	"strconv"
	"time"
)

// squeueField is a column that squeue can show.
type squeueField struct {
	title string
	value func(c *call, v *view) string
}

// squeueLetters are the fields of squeue -o by letter.
var squeueLetters = map[byte]string{
	'i': "jobid", 'A': "arrayjobid", 'F': "arrayjobid", 'j': "name", 'T': "state", 't': "statecompact", 'u': "username", 'U': "userid",
	'P': "partition", 'a': "account", 'q': "qos", 'N': "nodelist", 'B': "batchhost", 'R': "reasonlist",
	'r': "reason", 'S': "starttime", 'e': "endtime", 'V': "submittime", 'l': "timelimit", 'L': "timeleft",
	'M': "timeused", 'D': "numnodes", 'C': "numcpus", 'o': "command", 'Z': "workdir", 'k': "comment",
	'Q': "prioritylong", 'Y': "schednodes", 'E': "dependency",
}

// squeueFields are the fields of squeue -O by name.
var squeueFields = map[string]squeueField{
	"jobid":        {"JOBID", func(_ *call, v *view) string { return v.ID }},
	"jobarrayid":   {"JOBID", func(_ *call, v *view) string { return v.ID }},
	"arrayjobid":   {"ARRAY_JOB_ID", func(_ *call, v *view) string { return v.ID }},
	"arraytaskid":  {"ARRAY_TASK_ID", fixed("N/A")},
	"name":         {"NAME", func(_ *call, v *view) string { return v.Name }},
	"state":        {"STATE", func(_ *call, v *view) string { return v.State }},
	"statecompact": {"ST", func(_ *call, v *view) string { return compact(v.State) }},
	"username":     {"USER", fixed(user)},
	"userid":       {"USER", fixed(userID)},
	"partition":    {"PARTITION", func(_ *call, v *view) string { return v.queue }},
	"account":      {"ACCOUNT", func(_ *call, v *view) string { return v.account }},
	"qos":          {"QOS", fixed("normal")},
	"cluster":      {"CLUSTER", fixed(alias)},
	"nodelist":     {"NODELIST", func(_ *call, v *view) string { return v.node() }},
	"batchhost":    {"EXEC_HOST", func(_ *call, v *view) string { return cmp.Or(v.node(), "n/a") }},
	"batchflag":    {"BATCH_FLAG", fixed("1")},
	"schednodes":   {"SCHEDNODES", func(_ *call, v *view) string { return cmp.Or(v.scheduled(), "(null)") }},
	"reasonlist":   {"NODELIST(REASON)", reasonList},
	"reason":       {"REASON", func(_ *call, v *view) string { return v.Reason }},
	"starttime":    {"START_TIME", func(c *call, v *view) string { return c.slurmTime(v.start(), "N/A") }},
	"endtime":      {"END_TIME", func(c *call, v *view) string { return c.slurmTime(v.end(), "N/A") }},
	"submittime":   {"SUBMIT_TIME", func(c *call, v *view) string { return c.slurmTime(v.Submitted, "N/A") }},
	"timelimit":    {"TIME_LIMIT", func(_ *call, v *view) string { return slurmSpan(v.limit) }},
	"timeleft":     {"TIME_LEFT", func(_ *call, v *view) string { return slurmSpan(max(0, v.limit-v.used())) }},
	"timeused":     {"TIME", func(_ *call, v *view) string { return slurmSpan(v.used()) }},
	"numnodes":     {"NODES", fixed("1")},
	"numcpus":      {"CPUS", func(_ *call, v *view) string { return strconv.Itoa(max(v.cpus, 1)) }},
	"command":      {"COMMAND", func(_ *call, v *view) string { return cmp.Or(v.Script, "(null)") }},
	"workdir":      {"WORK_DIR", func(_ *call, v *view) string { return v.WorkDir }},
	"stdout":       {"STDOUT", func(_ *call, v *view) string { return absIn(v.workDir, cmp.Or(v.output, "slurm-%j.out")) }},
	"stderr":       {"STDERR", func(_ *call, v *view) string { return absIn(v.workDir, cmp.Or(v.errors, v.output, "slurm-%j.out")) }},
	"comment":      {"COMMENT", fixed("(null)")},
	"dependency":   {"DEPENDENCY", fixed("(null)")},
	"prioritylong": {"PRIORITY", func(_ *call, v *view) string { return strconv.Itoa(v.priority()) }},
	"restartcnt":   {"RESTART_COUNT", func(_ *call, v *view) string { return strconv.Itoa(v.Restarts) }},
	"requeue":      {"REQUEUE", fixed("1")},
	"exit_code":    {"EXIT_CODE", func(_ *call, v *view) string { return strconv.Itoa(v.Exit) }},
}

// userID is the student's, as the schedulers print it.
const userID = "2001"

func fixed(text string) func(*call, *view) string {
	return func(*call, *view) string { return text }
}

func reasonList(_ *call, v *view) string {
	if v.State == statePending {
		return "(" + v.Reason + ")"
	}
	return v.Node
}

func compact(state string) string {
	return map[string]string{
		statePending: "PD", stateRunning: "R", stateEnding: "CG", stateCompleted: "CD", stateFailed: "F",
		stateCancelled: "CA", stateTimeout: "TO",
	}[state]
}

func (v *view) priority() int { return 4294901760 - v.seq }

// node is where the job runs or ran; a pending one has none.
func (v *view) node() string {
	if v.State == statePending || v.Started.IsZero() {
		return ""
	}
	return v.Node
}

// scheduled is where a pending job is expected to run.
func (v *view) scheduled() string {
	if v.State != statePending || v.held {
		return ""
	}
	return nodes[(v.seq-firstJob+v.Restarts)%len(nodes)]
}

// start is when the job started or, of a pending one, is expected to.
func (v *view) start() time.Time {
	switch {
	case !v.Started.IsZero():
		return v.Started
	case v.State == statePending && !v.held:
		return v.Expected
	}
	return v.Ended
}

// end is when the job ended or will have to.
func (v *view) end() time.Time {
	switch {
	case !v.Ended.IsZero():
		return v.Ended
	case v.start().IsZero():
		return time.Time{}
	}
	return v.start().Add(v.limit)
}

func (v *view) used() time.Duration {
	switch {
	case v.Started.IsZero():
		return 0
	case !v.Ended.IsZero():
		return v.Ended.Sub(v.Started)
	}
	return time.Since(v.Started)
}
