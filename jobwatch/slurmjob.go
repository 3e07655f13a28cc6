package jobwatch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// slurmRecord is what scontrol tells of one job, by field.
type slurmRecord map[string]string

func splitScontrol(out string) []slurmRecord {
	var records []slurmRecord
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\nJobId=") {
		r := scontrolFields(" JobId=" + strings.TrimPrefix(line, "JobId="))
		if r["JobId"] != "" && r["JobState"] != "" {
			records = append(records, r)
		}
	}
	return records
}

// A job's name stands first and may look like anything, even like other fields; what
// follows it cannot be mistaken. The other free texts stand last.
var (
	afterName     = regexp.MustCompile(`\s+UserId=\S+\(\d+\)\s+GroupId=\S+\(\d+\)\s`)
	scontrolKey   = regexp.MustCompile(`\s([A-Z][A-Za-z:/]*)=`)
	freeScontrol  = regexp.MustCompile(`\s(Command|WorkDir|StdErr|StdIn|StdOut)=`)
	afterScontrol = regexp.MustCompile(`\s(?:Power|TresPer\w+|MailUser|MailType|Comment|CpusPerTres|MemPerTres|NtasksPerTRES)=`)
)

// scontrolFields splits one job's Key=Value words. The first of each key wins.
func scontrolFields(line string) slurmRecord {
	f := make(slurmRecord)
	head, rest := line, ""
	if at := afterName.FindAllStringIndex(line, -1); at != nil {
		last := at[len(at)-1]
		head, rest = line[:last[0]], line[last[0]:]
	}
	if before, name, ok := strings.Cut(head, " JobName="); ok {
		f["JobName"] = name
		head = before
	}
	addFields(f, head, scontrolKey)
	tail := ""
	if at := freeScontrol.FindStringIndex(rest); at != nil {
		rest, tail = rest[:at[0]], rest[at[0]:]
	}
	addFields(f, rest, scontrolKey)
	if at := afterScontrol.FindStringIndex(tail); at != nil {
		tail = tail[:at[0]]
	}
	addFields(f, tail, freeScontrol)
	return f
}

// addFields adds the values between the matches of key.
func addFields(f slurmRecord, text string, key *regexp.Regexp) {
	at := key.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if name := text[m[2]:m[3]]; f[name] == "" {
			f[name] = strings.TrimSpace(text[m[1]:end])
		}
	}
}

func (r slurmRecord) job() api.Job {
	job := api.Job{
		ID:     taskID(r["JobId"], r["ArrayJobId"], r["ArrayTaskId"]),
		Name:   r["JobName"],
		Queue:  r["Partition"],
		Node:   firstNode(r["NodeList"]),
		Reason: strings.ReplaceAll(slurmWord(r["Reason"]), "_", " "),
		Script: slurmWord(r["Command"]),
		Log:    logFile(r["StdOut"]),
	}
	if file := logFile(r["StdErr"]); file != "" && file != job.Log {
		job.OtherLogs = []string{file}
	}
	job.Restarts, _ = strconv.Atoi(r["Restarts"])
	setSlurmState(&job, r["JobState"])
	setSlurmTimes(&job, r["SubmitTime"], r["StartTime"], r["EndTime"])
	setSlurmExit(&job, r["ExitCode"])
	return job
}

// value is a variable of the job's script, as far as Slurm sets it.
func (r slurmRecord) value(name string) string {
	switch name {
	case "SLURM_JOB_ID", "SLURM_JOBID":
		return r["JobId"]
	case "SLURM_ARRAY_JOB_ID":
		return r["ArrayJobId"]
	case "SLURM_ARRAY_TASK_ID":
		return r["ArrayTaskId"]
	case "SLURM_JOB_NAME":
		return r["JobName"]
	case "SLURM_SUBMIT_DIR":
		return r["WorkDir"]
	case "HOME":
		return "~"
	case "USER", "LOGNAME":
		user, _, _ := strings.Cut(r["UserId"], "(")
		return user
	}
	return ""
}

// logFile is a path if it is one that can be followed.
func logFile(path string) string {
	if path = slurmWord(path); path == "/dev/null" {
		return ""
	}
	return path
}

// setSlurmExit reads "status:signal" of an ended job.
func setSlurmExit(job *api.Job, text string) {
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
		job.Hint = slurmFailure(code, number)
	}
	if number != 0 {
		code = 128 + number
	}
	job.Exit = &code
}

// slurmFailure explains how a job failed where its status tells.
func slurmFailure(status, signal int) string {
	switch {
	case status == 0 && signal == 53:
		return "Slurm could not open the job's output file or working folder: see that the folders exist on the node"
	case signal == 9:
		return "the job was killed (signal 9), often for lack of memory: ask for more with --mem"
	case signal != 0:
		return fmt.Sprintf("the job was ended by signal %d", signal)
	case status == 127:
		return "the script called a command that the node does not have: see its log"
	}
	return fmt.Sprintf("the script ended with status %d: see its log", status)
}

// sacctFields are those that every version knows. The name stands last, since it may
// contain the delimiter.
const sacctFields = "JobID,State,ExitCode,Submit,Start,End,NodeList,Partition,JobName"

// parseSacct reads the answer of sacct -X -n -P, the last record of a job being its
// last run.
func parseSacct(out string) []api.Job {
	var jobs []api.Job
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", 9)
		if len(f) != 9 {
			continue
		}
		job := api.Job{ID: f[0], Node: firstNode(f[6]), Queue: f[7], Name: f[8]}
		setSlurmState(&job, f[1])
		setSlurmTimes(&job, f[3], f[4], f[5])
		setSlurmExit(&job, f[2])
		jobs = append(jobs, job)
	}
	return jobs
}
