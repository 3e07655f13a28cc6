package slurm

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// record is what scontrol show job prints about one job, by key.
type record map[string]string

// tailKeys are the keys of scontrol show job, from Slurm 15.08 to 26.05, that it prints after the first of freeKeys: in one
// line, only these end a free text.
const tailKeys = `SegmentSize SpreadSegments ConsolidateSegments Switches BurstBufferState Power SICP CPU_min_freq CPU_max_freq ` +
	`Governor GresAllowTaskSharing GresEnforceBind GresOneTaskPerSharing KillOInInvalidDependent KillOnInvalidDependent SpreadJob ` +
	`ExpeditedRequeue OOMKillStep CpusPerTres MemPerTres TresBind TresFreq TresPerJob TresPerNode TresPerSocket TresPerTask ` +
	`MailUser MailType NtasksPerTRES ContainerType Container ContainerID SELinuxContext ResvPorts`

// freeKeys have the user's text or path as value, which may look like anything. In the form
// with several lines, each has its own line.
const freeKeys = `Command SubmitLine WorkDir AdminComment SystemComment Comment Extra StdErr StdIn StdOut BurstBuffer`

// multilineKeys are the free texts that may have several lines, unlike paths.
const multilineKeys = `JobName SubmitLine AdminComment SystemComment Comment Extra BurstBuffer`

var (
	anyKey    = regexp.MustCompile(`(?:^|\s)([A-Z][A-Za-z_:/-]*)=`)
	lineKey   = regexp.MustCompile(`^\s*[A-Z][A-Za-z_:/-]*=`)
	tailKey   = keyPattern(`(?:^|\s)`, tailKeys+" "+freeKeys)
	freeKey   = keyPattern(`^\s*`, freeKeys)
	firstFree = keyPattern(`\s`, freeKeys)

	recordStart = regexp.MustCompile(`(?m)^[ \t]*JobId=`)
	ownLine     = regexp.MustCompile(`(?m)^\s*UserId=`)
	jobName     = regexp.MustCompile(`\s(?:JobName|Name)=`)
	// afterName: a job's name may look like other fields, but not like these two.
	afterName = regexp.MustCompile(`\s(?:(?:SLUID|HetJobIdSet|PackJobIdSet)=\S+\s+)*UserId=[^=]*\sGroupId=[^=]*\s\w+=`)
)

func keyPattern(before, keys string) func() *regexp.Regexp {
	words := strings.Fields(keys)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	return sched.LazyPattern(before + "(" + strings.Join(words, "|") + ")[=]")
}

// splitScontrol reads the output of scontrol show job in both of its forms. It drops lines
// that belong to no job, as a site's wrapper prints them.
func splitScontrol(out string) []record {
	var records []record
	starts := recordStart.FindAllStringIndex(out, -1)
	for i, at := range starts {
		end := len(out)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		r := make(record)
		if text := out[at[0]:end]; ownLine.MatchString(text) {
			r.readLines(text)
		} else {
			r.readLine(text)
		}
		if r["JobId"] != "" && r["JobState"] != "" {
			records = append(records, r)
		}
	}
	return records
}

// readLines reads the form with several lines. There every free text has its own line, so
// that nothing in it looks like another key.
func (r record) readLines(text string) {
	last := "" // the last key of the previous line
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		switch {
		case i == 0:
			r.readHead(line)
			last = "JobName"
		case freeKey().MatchString(line):
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			r[key] = value // the last one: an earlier one is part of a comment
			last = key
		case lineKey.MatchString(line):
			last = r.add(line, anyKey)
		case strings.TrimSpace(line) == "":
			last = "" // the end of the record
		case slices.Contains(strings.Fields(multilineKeys), last):
			r[last] += "\n" + strings.TrimSpace(line)
		}
	}
}

// readHead reads the line with the ids and the name.
func (r record) readHead(line string) {
	if at := jobName.FindStringIndex(line); at != nil {
		r["JobName"] = line[at[1]:]
		line = line[:at[0]]
	}
	r.add(line, anyKey)
}

// readLine reads the form with one line per job, also if that line was folded.
func (r record) readLine(text string) {
	text = joinFolds(text)
	head, rest := text, ""
	if at := afterName.FindAllStringIndex(text, -1); at != nil {
		last := at[len(at)-1]
		head, rest = text[:last[0]], text[last[0]:]
	}
	r.readHead(head)
	tail := ""
	if at := firstFree().FindStringIndex(rest); at != nil {
		rest, tail = rest[:at[0]], rest[at[0]:]
	}
	r.add(rest, anyKey)
	r.add(tail, tailKey())
}

// joinFolds makes one line of a record. A line after the paths that does not begin with a key
// is not part of it.
func joinFolds(text string) string {
	var b strings.Builder
	tail := false
	for line := range strings.Lines(text) {
		if tail && !lineKey.MatchString(line) {
			continue
		}
		b.WriteString(strings.TrimRight(line, " \r\n"))
		b.WriteByte(' ')
		tail = tail || firstFree().MatchString(" "+line)
	}
	return b.String()
}

// add adds the values between the matches of key, and returns the last key. The first value
// of a key counts, but the last of a path: a comment before it may contain one.
func (r record) add(text string, key *regexp.Regexp) (last string) {
	at := key.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		last = text[m[2]:m[3]]
		if _, known := r[last]; !known || strings.HasPrefix(last, "Std") {
			r[last] = strings.TrimSpace(text[m[1]:end])
		}
	}
	return last
}

func (r record) job() api.Job {
	job := api.Job{
		ID:     taskID(r["JobId"], r["ArrayJobId"], r["ArrayTaskId"]),
		Name:   r["JobName"],
		Queue:  r["Partition"],
		Node:   batchNode(r["BatchHost"], r["NodeList"]),
		Nodes:  sched.SeveralNodes(r["NodeList"]),
		Reason: strings.ReplaceAll(known(r["Reason"]), "_", " "),
		Script: known(r["Command"]),
		Log:    r.output("StdOut"),
		Limit:  int64(parseDuration(r["TimeLimit"]).Seconds()),
	}
	for _, ask := range []struct{ name, value string }{{"account=", r["Account"]}, {"qos=", r["QOS"]}, {"", cmp.Or(r["ReqTRES"], r["TRES"])}, {"constraint=", r["Features"]}} {
		if value := known(ask.value); value != "" {
			job.Asks = strings.TrimPrefix(job.Asks+","+ask.name+value, ",")
		}
	}
	if file := r.output("StdErr"); file != "" && file != job.Log {
		job.OtherLogs = []string{file}
	}
	job.Restarts, _ = strconv.Atoi(r["Restarts"])
	setState(&job, r["JobState"])
	if cluster := known(r["FedActiveSiblings"]); job.Reason == revoked && cluster != "" {
		job.Hint = strings.Replace(job.Hint, "another cluster", "cluster "+cluster, 1)
	}
	setTimes(&job, r["SubmitTime"], r["StartTime"], r["EndTime"])
	setExit(&job, r["ExitCode"])
	setMemory(&job, cmp.Or(known(r["AllocTRES"]), r["TRES"]))
	return job
}

// output is the file of one of the job's streams, empty if that is not known. Scontrol
// expands what the controller knows and leaves the rest to the node: %N, and for a batch
// script %J, %t, %n and %s. For tasks of an array that wait together, it prints a wrong
// number.
func (r record) output(key string) string {
	if r.waitsTogether() {
		return ""
	}
	return filePattern{
		id: r["JobId"], array: cmp.Or(r["ArrayJobId"], r["JobId"]), task: cmp.Or(r["ArrayTaskId"], noTask),
		node: batchNode(r["BatchHost"], r["NodeList"]), user: r.user(), name: r["JobName"], expanded: true,
	}.expand(logFile(r[key]))
}

// noTask is Slurm's task number of a job that is not an array.
const noTask = "4294967294"

// waitsTogether reports whether the record is for several tasks of an array.
func (r record) waitsTogether() bool {
	return strings.Trim(r["ArrayTaskId"], "0123456789") != ""
}

func (r record) user() string {
	user, _, _ := strings.Cut(r["UserId"], "(")
	return user
}

// scripts are the possible paths of the job's script. Command has the path and then the
// arguments, and both may contain spaces. A relative path starts in the working folder.
func (r record) scripts() []string {
	command := known(r["Command"])
	if command == "" || r["BatchFlag"] == "0" {
		return nil
	}
	command = sched.AbsolutePath(r["WorkDir"], command)
	var paths []string
	for i := range len(command) {
		if command[i] == ' ' {
			paths = append(paths, command[:i])
		}
	}
	return append(paths, command)
}

// variables are those of the job's script that Slurm sets.
func (r record) variables() map[string]string {
	return map[string]string{
		"SLURM_JOB_ID": r["JobId"], "SLURM_JOBID": r["JobId"], "SLURM_ARRAY_JOB_ID": r["ArrayJobId"], "SLURM_ARRAY_TASK_ID": r["ArrayTaskId"],
		"SLURM_JOB_NAME": r["JobName"], "SLURM_SUBMIT_DIR": r["WorkDir"], "HOME": "~", "USER": r.user(), "LOGNAME": r.user(),
	}
}

// logFile is path, or empty if it cannot be followed.
func logFile(path string) string {
	if path = known(path); path == "/dev/null" {
		return ""
	}
	return path
}

// setState translates the state, and explains its reason.
func setState(job *api.Job, state string) {
	word, _, _ := strings.Cut(strings.TrimSpace(state), " ") // "CANCELLED by 2001"
	job.State = cmp.Or(stateWords[strings.TrimSuffix(word, "+")], api.JobUnknown)
	switch {
	case job.State == api.JobQueued:
		r := reasonFor(job.Reason)
		if r.Held {
			job.State = api.JobHeld
		}
		job.Hint = r.Hint()
		if job.Reason == "BeginTime" && job.Restarts > 0 {
			job.Hint += "; a requeued job waits two minutes"
		}
	case word == revoked:
		job.Reason = word
		job.Hint = "another cluster of the federation runs the job, and tunctl does not follow it there: log in to that cluster, or choose one with -M"
	case job.State == api.JobRunning && job.Reason == "Prolog":
		job.Hint = reasonFor(job.Reason).Hint()
	case word == api.ReasonSuspended || word == "STOPPED":
		job.Reason = word
		job.Hint = sched.SuspendedHint
	case word == "DEADLINE":
		job.Hint = "the deadline of the job passed, or could no longer be met"
	case word != "" && job.Reason == "" && job.State.Ended() && job.State != api.JobFinished:
		job.Reason = strings.TrimSpace(state)
	}
}

// revoked is the state of a job at its origin while another cluster of the federation runs it.
const revoked = "REVOKED"

var stateWords = map[string]api.JobState{
	"PENDING": api.JobQueued, "REQUEUED": api.JobQueued, "REQUEUE_FED": api.JobQueued,
	"REQUEUE_HOLD": api.JobHeld, "SPECIAL_EXIT": api.JobHeld, "RESV_DEL_HOLD": api.JobHeld,
	"CONFIGURING": api.JobConfiguring, "POWER_UP_NODE": api.JobConfiguring,
	"RUNNING": api.JobRunning, "SUSPENDED": api.JobRunning, "STOPPED": api.JobRunning, "RESIZING": api.JobRunning, "SIGNALING": api.JobRunning,
	revoked:      api.JobRunning,
	"COMPLETING": api.JobCompleting, "STAGE_OUT": api.JobCompleting,
	"COMPLETED": api.JobFinished,
	"FAILED":    api.JobFailed, "LAUNCH_FAILED": api.JobFailed, "RECONFIG_FAIL": api.JobFailed,
	"CANCELLED": api.JobCancelled,
	"TIMEOUT":   api.JobTimeout, "DEADLINE": api.JobTimeout,
	"OUT_OF_MEMORY": api.JobOOM,
	"NODE_FAIL":     api.JobNodeFail, "BOOT_FAIL": api.JobNodeFail,
	"PREEMPTED": api.JobPreempted,
}

// setTimes sets the times, after state and node. The start of a job that waits is a
// forecast, and its end is meaningless; the start of one that ended without a node is its end.
func setTimes(job *api.Job, submit, start, end string) {
	job.Submitted = sched.ParseTime(submit)
	if job.State == api.JobHeld || job.State == api.JobQueued {
		job.ExpectedStart = sched.ParseTime(start)
		withdrawNever(job)
		return
	}
	job.Start, job.End = sched.ParseTime(start), sched.ParseTime(end)
	if job.State.Ended() && job.Node == "" {
		job.Start = time.Time{}
	}
}

// withdrawNever: the reason is about one partition and about the nodes that are up, so a job that
// has other partitions or a forecast may start all the same.
func withdrawNever(job *api.Job) {
	why, never := strings.CutPrefix(job.Hint, api.HintNeverStarts+": ")
	switch {
	case !never:
	case strings.Contains(job.Queue, ","):
		job.Hint = "the job may start in another of its partitions; in one, " + why
	case !job.ExpectedStart.IsZero():
		job.Hint = "Slurm expects to start the job, although it says: " + why
	}
}

// setExit reads "status:signal" of an ended job.
func setExit(job *api.Job, text string) {
	if !job.State.Ended() {
		return
	}
	status, signal, ok := strings.Cut(text, ":")
	code, err := strconv.Atoi(status)
	if !ok || err != nil {
		return
	}
	number, _ := strconv.Atoi(signal)
	if job.State == api.JobFailed {
		job.Hint = failureHint(code, number)
	}
	if number != 0 {
		code = 128 + number
	}
	job.Exit = &code
}

// setMemory reads from cpu=4,mem=16G,node=2 how much memory a job had on each node, if it may have run
// out of that: without control groups, Slurm kills such a job, and only its log says why.
func setMemory(job *api.Job, tres string) {
	killed := job.Exit != nil && *job.Exit == 128+9
	if job.State != api.JobOOM && (job.State != api.JobFailed || !killed) {
		return
	}
	amounts := map[string]int64{}
	for item := range strings.SplitSeq(tres, ",") {
		name, amount, _ := strings.Cut(item, "=")
		amounts[name] = sched.ParseSize(amount)
	}
	job.Memory = amounts["mem"] / max(amounts["node"], 1)
}

// failureHint explains how a job failed, from its exit status.
func failureHint(status, signal int) string {
	switch {
	case status == 0 && signal == 53:
		return "Slurm could not open the output file or working directory of the job: check that both exist on the node"
	case signal == 9:
		return "the job was killed (signal 9), often because it ran out of memory: ask for more with --mem"
	case signal != 0:
		return fmt.Sprintf("the job was killed by signal %d", signal)
	case status == 127:
		return "the script called a command that is not installed on the node: see the log"
	}
	return sched.ExitHint(status)
}
