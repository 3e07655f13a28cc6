package jobwatch

import (
	"context"
	"path"
	"strings"

	"tunctl/internal/api"
)

// spooled is said of a job whose output nobody can read before it ends.
const spooled = "PBS keeps this job's output on the node until it ends: submit with -k oed, or redirect it in the script"

// setLog finds where the job writes: what the script itself redirects to under the
// job's name or id, else the job's standard output.
func (pbs) setLog(ctx context.Context, sh *shell, job *api.Job, r pbsRecord) {
	own, others := ownLogs(redirections(ctx, sh, r.absolute(r.script()), r.value), "PBS_JOB")
	for i := range others {
		others[i] = r.absolute(others[i])
	}
	output, readable := r.output(*job)
	if own == "" {
		job.Log, job.OtherLogs = output, others
		if !readable && job.State == api.JobRunning && job.Hint == "" {
			job.Hint = spooled
		}
		return
	}
	job.Log = r.absolute(own)
	if readable && output != "" {
		others = append([]string{output}, others...)
	}
	job.OtherLogs = others
}

// output is where the job's standard output goes, and whether it is there before
// the job ends.
func (r pbsRecord) output(job api.Job) (file string, readable bool) {
	_, file, _ = strings.Cut(r["Output_Path"], ":")
	file = strings.ReplaceAll(file, "^array_index^", r["array_index"])
	switch keep := r["Keep_Files"]; {
	case strings.Contains(keep, "d") || job.State.Ended():
		return file, true
	case strings.Contains(keep, "o"):
		// Kept on the node, in the home folder, under PBS's own name.
		return path.Join(r.variable("PBS_O_HOME"), path.Base(file)), true
	}
	return file, false
}

// script is the path of the job's script: the last of the words of qsub.
func (r pbsRecord) script() string {
	args := r["Submit_arguments"]
	if at := strings.LastIndex(args, "/"+tagRoot+"/"); at >= 0 {
		start := strings.LastIndexAny(args[:at], " \t") + 1
		return strings.TrimSpace(args[start:])
	}
	fields := strings.Fields(args)
	if len(fields) == 0 || strings.Contains(" "+args+" ", " -- ") {
		return ""
	}
	if last := fields[len(fields)-1]; !strings.HasPrefix(last, "-") && last != "<jsdl-hpcpa:Argument>" {
		return last
	}
	return ""
}

// absolute completes a path with the folder the job was submitted from.
func (r pbsRecord) absolute(p string) string {
	if p == "" {
		return ""
	}
	return inFolder(r.variable("PBS_O_WORKDIR"), p)
}

// variable is one of PBS's own variables; they stand first in Variable_List.
func (r pbsRecord) variable(name string) string {
	for pair := range strings.SplitSeq(r["Variable_List"], ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// value is a variable of the job's script, as far as PBS sets it.
func (r pbsRecord) value(name string) string {
	switch name {
	case "PBS_JOBID":
		return r["Job Id"]
	case "PBS_JOBNAME":
		return r["Job_Name"]
	case "HOME", "PBS_O_HOME":
		return r.variable("PBS_O_HOME")
	case "PBS_O_WORKDIR":
		return r.variable("PBS_O_WORKDIR")
	case "USER", "LOGNAME", "PBS_O_LOGNAME":
		return r.variable("PBS_O_LOGNAME")
	}
	return ""
}
