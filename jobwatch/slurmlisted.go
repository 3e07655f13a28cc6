package jobwatch

import (
	"fmt"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// listedLog is where a job writes according to squeue, empty where that cannot be
// told for certain. Squeue shows the pattern that was given to sbatch, for a job
// without a script the default all the same, and for an array's task the name that it
// would have without its array.
func listedLog(job api.Job, id string, f []string) string {
	pattern := logFile(f[12])
	if strings.TrimSpace(f[13]) == "0" || strings.Contains(pattern, `\`) {
		return ""
	}
	master, task, isTask := strings.Cut(job.ID, "_")
	if isTask {
		if folder, ok := strings.CutSuffix(pattern, "/slurm-"+id+".out"); ok {
			pattern = folder + "/slurm-%A_%a.out"
		}
	}
	return expandSlurm(pattern, func(letter byte) string {
		switch letter {
		case 'j', 'J':
			return id
		case 'A':
			return master
		case 'a':
			if _, err := strconv.Atoi(task); err == nil {
				return task
			}
		case 'N':
			node, _, _ := strings.Cut(job.Node, ".")
			return node
		case 't', 'n':
			return "0"
		case 's':
			return "batch"
		case 'u':
			return f[14]
		case 'x':
			return job.Name
		}
		return ""
	})
}

// expandSlurm replaces %j and the like, also with a width as in %5j. Where the value of
// one is not known there is nothing.
func expandSlurm(pattern string, value func(letter byte) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(pattern, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest, found = strings.CutPrefix(rest, "%"); found {
			b.WriteByte('%')
			pattern = rest
			continue
		}
		name := strings.TrimLeft(rest, "0123456789")
		if name == "" || value(name[0]) == "" {
			return ""
		}
		text := value(name[0])
		width, _ := strconv.Atoi(rest[:len(rest)-len(name)])
		if n, err := strconv.Atoi(text); err == nil && width > 0 {
			text = fmt.Sprintf("%0*d", min(width, 10), n)
		}
		b.WriteString(text)
		pattern = name[1:]
	}
}
