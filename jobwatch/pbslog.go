package jobwatch

import (
	"cmp"
	"context"
	"path"
	"strings"

	"tunctl/internal/api"
)

// Spooled is the hint of a job whose output nobody can read before it ends.
const Spooled = "PBS keeps the output of this job on the node until it ends: add #PBS -k oed to the script, or redirect the output to a file"

// setLog finds where the job writes: what the script itself redirects to under the
// job's name or id, else the job's standard output, once that can be read.
func (p pbs) setLog(ctx context.Context, sh *shell, job *api.Job, r pbsRecord) {
	own, others := ownLogs(p.redirections(ctx, sh, *job, r), "PBS_JOB")
	for i := range others {
		others[i] = r.absolute(others[i])
	}
	output, readable := r.output(*job)
	switch {
	case own != "":
		job.Log = r.absolute(own)
		if readable && output != "" {
			others = append([]string{output}, others...)
		}
	case readable:
		job.Log = output
	case job.Hint == "" && (job.State == api.JobQueued || job.State == api.JobRunning):
		job.Hint = Spooled
	}
	job.OtherLogs = others
}

// redirections are the files that the job's script writes to. PBS runs the script as
// it was submitted, so that it is read once.
func (p pbs) redirections(ctx context.Context, sh *shell, job api.Job, r pbsRecord) []redirection {
	p.cache.mu.Lock()
	lines, known := p.cache.scripts[job.ID]
	p.cache.mu.Unlock()
	if !known && job.Script != "" {
		var err error
		if _, lines, err = readRedirections(ctx, sh, []string{job.Script}); err != nil {
			return nil
		}
		p.cache.mu.Lock()
		p.cache.scripts[job.ID] = lines
		p.cache.mu.Unlock()
	}
	return parseRedirections(lines, r.value)
}

// output is where the job's standard output goes, and whether it is there before
// the job ends.
func (r pbsRecord) output(job api.Job) (file string, readable bool) {
	file = r["Output_Path"]
	if host, rest, ok := strings.Cut(file, ":"); ok && !strings.Contains(host, "/") {
		file = rest
	}
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

// qsubValued are the options of qsub, PBS's and Torque's, that a value follows.
const qsubValued = "aAbcCdDeFjJkKlmMNopPqrRStTuvWw"

// script is the path of the job's script: the last of the words of qsub that is
// neither an option nor one's value. There is none when qsub read its standard input.
func (r pbsRecord) script() string {
	args := r["Submit_arguments"]
	if at := strings.LastIndex(args, "/"+tagRoot+"/"); at >= 0 {
		start := strings.LastIndexAny(args[:at], " \t") + 1
		return strings.TrimSpace(args[start:])
	}
	script, skip := "", false
	for _, word := range strings.Fields(args) {
		switch {
		case skip:
			skip = false
		case word == "--": // a command follows, no script
			return ""
		case word == "-": // standard input
		case strings.HasPrefix(word, "-"):
			skip = len(word) == 2 && strings.Contains(qsubValued, word[1:])
		case word != "<jsdl-hpcpa:Argument>":
			script = word
		}
	}
	return script
}

// absolute completes a path with the folder the job was submitted from.
func (r pbsRecord) absolute(p string) string {
	if p == "" {
		return ""
	}
	return absolutePath(r.workdir(), p)
}

// workdir is the folder the job was submitted from; Torque also has an attribute for it.
func (r pbsRecord) workdir() string {
	return cmp.Or(r.variable("PBS_O_WORKDIR"), r["init_work_dir"])
}

// variable is one of PBS's own variables; they stand first in Variable_List. A comma
// within a value has a backslash before it.
func (r pbsRecord) variable(name string) string {
	list := strings.ReplaceAll(r["Variable_List"], `\,`, "\x00")
	for pair := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return strings.ReplaceAll(value, "\x00", ",")
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
		return r.workdir()
	case "USER", "LOGNAME", "PBS_O_LOGNAME":
		return r.variable("PBS_O_LOGNAME")
	}
	return ""
}
