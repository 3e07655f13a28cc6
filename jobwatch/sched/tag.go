package sched

import (
	"context"
	"regexp"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// TagFolder is the folder of one submission, as a word of sh.
func TagFolder(sh *remote.Shell, tag string) string { return sh.Folder() + "/" + posixsh.Quote(tag) }

// SubmitOutput is what the submit command of a tag printed; empty if it printed nothing yet.
func SubmitOutput(ctx context.Context, sh *remote.Shell, tag string) (remote.Result, error) {
	res, err := sh.InFolder(ctx, "cat "+TagFolder(sh, tag)+"/tunctl.out 2>/dev/null\n:")
	return remote.Result{Stdout: res.Stdout}, err
}

// HasTag reports whether job was submitted from the folder of tag.
func HasTag(job api.Job, tag string) bool {
	return strings.Contains(job.Script, "/"+remote.FolderName+"/"+tag+"/")
}

// WithTag returns the job that was submitted from the folder of tag.
func WithTag(jobs []api.Job, tag string) (api.Job, error) {
	for _, job := range jobs {
		if HasTag(job, tag) {
			return job, nil
		}
	}
	return api.Job{}, ErrNoJob
}

// OwnPrefix begins the names of our own files in a tag's folder.
const OwnPrefix = "tunctl."

// ValidTag matches the tags of submissions.
var ValidTag = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
