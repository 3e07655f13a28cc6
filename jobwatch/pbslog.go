package jobwatch

import (
	"context"
	"path"
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// spooled is said of a job whose output nobody can read before it ends.
const spooled = "PBS keeps this job's output on the node until it ends: submit with -k oed, or redirect it in the script"

// setLog finds where the job writes: what the script itself redirects to, else the
// job's standard output.
func (pbs) setLog(ctx context.Context, sh *shell, job *api.Job, r pbsRecord) {
	lines := ""
	if script := r.script(); script != "" {
		res, err := sh.plain(ctx, "grep -E '>' "+quotePath(r.absolute(script))+" 2>/dev/null | head -c 16384")
		if err == nil {
			lines = string(res.Stdout)
		}
	}
	if log := r.redirect(lines); log != "" {
		job.Log = log
		return
	}
	_, job.Log, _ = strings.Cut(r["Output_Path"], ":")
	job.Log = strings.ReplaceAll(job.Log, "^array_index^", r["array_index"])
	if keep := r["Keep_Files"]; strings.Contains(keep, "d") || job.State.Ended() {
		return
	} else if strings.Contains(keep, "o") {
		// Kept on the node, in the home folder, under PBS's own name.
		job.Log = path.Join(r.variable("PBS_O_HOME"), path.Base(job.Log))
		return
	}
	if job.State == api.JobRunning && job.Hint == "" {
		job.Hint = spooled
	}
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
	if path.IsAbs(p) || strings.HasPrefix(p, "~/") {
		return p
	}
	return path.Join(r.variable("PBS_O_WORKDIR"), p)
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

var (
	redirection = regexp.MustCompile(`(?:&|1)?>>?\s*("[^"]+"|'[^']+'|[^\s;|&<>()]+)`)
	shellName   = regexp.MustCompile(`\$\{?(\w+)((?:%%?\.\*|%%\.\*)?)\}?`)
)

// redirect is the file that a line of the script sends output to, if its name has
// the job's id or name in it, as in ">> ${PBS_JOBNAME}.${PBS_JOBID}.log".
func (r pbsRecord) redirect(lines string) string {
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range redirection.FindAllStringSubmatch(line, -1) {
			target := strings.Trim(m[1], `"'`)
			if !strings.Contains(target, "PBS_JOB") {
				continue
			}
			if file, ok := r.expand(target); ok {
				return r.absolute(file)
			}
		}
	}
	return ""
}

// expand puts in the variables that PBS sets; any other makes the name unknown.
func (r pbsRecord) expand(word string) (string, bool) {
	known := true
	text := shellName.ReplaceAllStringFunc(word, func(v string) string {
		m := shellName.FindStringSubmatch(v)
		value := ""
		switch m[1] {
		case "PBS_JOBID":
			value = r["Job Id"]
		case "PBS_JOBNAME":
			value = r["Job_Name"]
		case "HOME", "PBS_O_HOME":
			value = r.variable("PBS_O_HOME")
		case "PBS_O_WORKDIR":
			value = r.variable("PBS_O_WORKDIR")
		case "USER", "LOGNAME", "PBS_O_LOGNAME":
			value = r.variable("PBS_O_LOGNAME")
		}
		if value == "" {
			known = false
		}
		if m[2] != "" {
			value, _, _ = strings.Cut(value, ".")
		}
		return value
	})
	return text, known && !strings.ContainsAny(text, "$`")
}
