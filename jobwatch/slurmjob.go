package jobwatch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

func (r slurmRecord) job() api.Job {
	job := api.Job{
		ID:     taskID(r["JobId"], r["ArrayJobId"], r["ArrayTaskId"]),
		Name:   r["JobName"],
		Queue:  r["Partition"],
		Node:   batchNode(r["BatchHost"], r["NodeList"]),
		Reason: strings.ReplaceAll(slurmWord(r["Reason"]), "_", " "),
		Script: slurmWord(r["Command"]),
		Log:    r.output("StdOut"),
	}
	if file := r.output("StdErr"); file != "" && file != job.Log {
		job.OtherLogs = []string{file}
	}
	job.Restarts, _ = strconv.Atoi(r["Restarts"])
	setSlurmState(&job, r["JobState"])
	setSlurmTimes(&job, r["SubmitTime"], r["StartTime"], r["EndTime"])
	setSlurmExit(&job, r["ExitCode"])
	return job
}

// output is the file of one of the job's streams, empty where it cannot be told.
// Scontrol fills in what the controller knows and leaves the rest to the node: %N, and
// of a batch script %J, %t, %n and %s. For the tasks of an array that wait together it
// fills in a number that is none.
func (r slurmRecord) output(key string) string {
	if r.waitsTogether() {
		return ""
	}
	return expandSlurm(logFile(r[key]), func(letter byte) string {
		switch letter {
		case 'j', 'J':
			return r["JobId"]
		case 'A':
			return cmp.Or(r["ArrayJobId"], r["JobId"])
		case 'a':
			return cmp.Or(r["ArrayTaskId"], noTask)
		case 'N':
			node, _, _ := strings.Cut(batchNode(r["BatchHost"], r["NodeList"]), ".")
			return node
		case 't', 'n':
			return "0"
		case 's':
			return "batch"
		case 'u':
			return r.user()
		case 'x':
			return r["JobName"]
		}
		return "%" + string(letter) // it is part of the name
	})
}

// noTask is what Slurm writes for the task of a job that is no array.
const noTask = "4294967294"

// waitsTogether reports whether the record is of several tasks of an array.
func (r slurmRecord) waitsTogether() bool {
	return strings.Trim(r["ArrayTaskId"], "0123456789") != ""
}

func (r slurmRecord) user() string {
	user, _, _ := strings.Cut(r["UserId"], "(")
	return user
}

// scripts are the paths that the job's script may have, as Command tells it: its
// arguments stand behind it, and spaces may be in either. A relative path is one from
// the working folder.
func (r slurmRecord) scripts() []string {
	command := slurmWord(r["Command"])
	if command == "" || r["BatchFlag"] == "0" {
		return nil
	}
	command = inFolder(r["WorkDir"], command)
	var paths []string
	for i := range len(command) {
		if command[i] == ' ' {
			paths = append(paths, command[:i])
		}
	}
	return append(paths, command)
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
		return r.user()
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
		return "Slurm could not open the output file or working directory of the job: check that both exist on the node"
	case signal == 9:
		return "the job was killed (signal 9), often because it ran out of memory: ask for more with --mem"
	case signal != 0:
		return fmt.Sprintf("the job was killed by signal %d", signal)
	case status == 127:
		return "the script called a command that is not installed on the node: see the log"
	}
	return fmt.Sprintf("the script ended with exit status %d: see the log", status)
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
