package jobwatch

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// geFiles is what the host's disk adds to a record. It is looked at once for each job.
type geFiles struct {
	folders []string // those of the output paths that are folders
	lines   string   // the lines of the job's script that redirect output
}

// setLog sets the job's log, which Grid Engine writes while the job runs, and the other files
// that the job writes.
func (g gridEngine) setLog(ctx context.Context, sh *shell, job *api.Job, row geRow) {
	k := g.known(row.number)
	if job.State.Ended() || k.record.number == "" {
		return
	}
	variables := k.record.variables(row)
	files := g.files(ctx, sh, job.Script, k, variables)
	job.Log = k.record.output(row, k.record.stdout, "o", files.folders, variables)
	if !k.record.merged {
		addLogs(job, k.record.output(row, k.record.stderr, "e", files.folders, variables))
	}
	own, others := redirectedLogs(files.lines, k.record.folder(), "JOB_ID", variables)
	addLogs(job, own)
	addLogs(job, others...)
}

// files looks at the job's script, and for folders among its output paths.
func (g gridEngine) files(ctx context.Context, sh *shell, script string, k *geKnown, variables map[string]string) geFiles {
	if k.files != nil {
		return *k.files
	}
	var asked []string
	for _, requested := range []string{k.record.stdout, k.record.stderr} {
		if file, known := k.record.path(requested, variables); known && requested != "" {
			asked = append(asked, file)
		}
	}
	res, err := sh.plain(ctx, "for f in "+posixsh.Join(asked)+`; do test ! -d "$f" || printf '%s\n' "$f"; done
echo; f=`+posixsh.Quote(script)+"; test ! -f \"$f\" || "+printRedirections)
	if err != nil {
		return geFiles{}
	}
	folders, lines, _ := strings.Cut("\n"+string(res.Stdout), "\n\n")
	k.files = &geFiles{folders: strings.Split(folders, "\n"), lines: lines}
	return *k.files
}

// folder is where the job runs.
func (r *geRecord) folder() string {
	return cmp.Or(r.cwd, r.home)
}

// path is an output path as Grid Engine reads it, and whether all of it is known.
func (r *geRecord) path(requested string, variables map[string]string) (string, bool) {
	file, known := expandWord(requested, variables)
	if rest, ok := strings.CutPrefix(file, "~"); ok {
		user, rest, _ := strings.Cut(rest, "/")
		known = known && r.home != "" && (user == "" || user == r.user)
		file = path.Join(r.home, rest)
	}
	return absolutePath(r.folder(), file), known
}

// output is the file for what was requested with -o or -e. For a folder, or without a request,
// it has the job's name, the letter, and the ids; "" if a part of the name is not known yet.
func (r *geRecord) output(row geRow, requested, letter string, folders []string, variables map[string]string) string {
	file, known := r.path(requested, variables)
	if !known {
		return ""
	}
	switch {
	case requested != "" && !strings.HasSuffix(requested, "/") && !slices.Contains(folders, file):
		if strings.HasPrefix(file, "/dev/") {
			return ""
		}
		return file
	case (gridEngine{}).isTaskRange(row.tasks):
		return ""
	}
	name := r.name + "." + letter + r.number
	if row.tasks != "" {
		name += "." + row.tasks
	}
	return path.Join(file, name)
}
