package jobwatch

import (
	"context"
	"path"
	"strings"

	"tunctl/internal/api"
)

// Spooled is the hint of a job whose output cannot be read before it ends.
const Spooled = "PBS keeps the output of this job on the node until it ends: add #PBS -k oed to the script, or redirect the output to a file"

// setLog finds the job's log: the file with the job's name or id to which the script
// redirects, else the job's standard output, once that can be read.
func (p pbs) setLog(ctx context.Context, sh *shell, job *api.Job, r pbsRecord) {
	own, others := redirectedLogs(p.redirections(ctx, sh, *job), r.workdir(), "PBS_JOB", r.variables())
	output, readable := r.output(*job)
	switch {
	case own != "":
		job.Log = own
		if readable {
			addLogs(job, output)
		}
	case readable:
		job.Log = output
	case job.Hint == "" && (job.State == api.JobQueued || job.State == api.JobRunning):
		job.Hint = Spooled
	}
	addLogs(job, others...)
}

// redirections are the lines of the job's script that redirect output. PBS runs the script as it
// was submitted, so it is read only once.
func (p pbs) redirections(ctx context.Context, sh *shell, job api.Job) string {
	lines, known := p.cache.scripts[job.ID]
	if !known && job.Script != "" {
		var err error
		if _, lines, err = readRedirections(ctx, sh, []string{job.Script}); err != nil {
			return ""
		}
		p.cache.scripts[job.ID] = lines
	}
	return lines
}

// output is the file of the job's standard output, and whether it can be read before the job
// ends.
func (r pbsRecord) output(job api.Job) (file string, readable bool) {
	file = r["Output_Path"]
	if host, rest, ok := strings.Cut(file, ":"); ok && !strings.Contains(host, "/") {
		file = rest
	}
	file = strings.ReplaceAll(file, "^array_index^", r["array_index"])
	if file == "/dev/null" {
		return "", true
	}
	switch keep := r["Keep_Files"]; {
	case strings.Contains(keep, "d") || job.State.Ended():
		return file, true
	case strings.Contains(keep, "o"):
		// It is kept in the home folder, with PBS's default name.
		return path.Join(r.variable("PBS_O_HOME"), path.Base(file)), true
	}
	return file, false
}
