package sched

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// Pick returns the job with that id; of an array's tasks the first that runs, else the
// first that waits, else the last that ended.
func Pick(s Scheduler, jobs []api.Job, id string) (api.Job, bool) {
	var tasks []api.Job
	for _, job := range jobs {
		if !s.Matches(job, id) {
			continue
		}
		if job.ID == id {
			return job, true
		}
		tasks = append(tasks, job)
	}
	if len(tasks) == 0 {
		return api.Job{}, false
	}
	return slices.MinFunc(tasks, func(a, b api.Job) int {
		if a.State.Ended() && b.State.Ended() {
			return CompareIDs(b.ID, a.ID)
		}
		return cmp.Or(CompareReadiness(a, b), CompareIDs(a.ID, b.ID))
	}), true
}

// CompareReadiness orders jobs by how close they are to running, the closest first.
func CompareReadiness(a, b api.Job) int { return cmp.Compare(readiness[a.State], readiness[b.State]) }

// readiness orders states by how close the job is to running, the closest first; others are last.
var readiness = map[api.JobState]int{
	api.JobRunning: -5, api.JobConfiguring: -4, api.JobCompleting: -3, api.JobQueued: -3, api.JobUnknown: -2, api.JobHeld: -1,
}

var leadingNumber = regexp.MustCompile(`^\d+`)

// CompareIDs orders ids by age, as far as they show it: by number, then by text.
func CompareIDs(a, b string) int {
	x, _ := strconv.ParseInt(leadingNumber.FindString(a), 10, 64)
	y, _ := strconv.ParseInt(leadingNumber.FindString(b), 10, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// SplitRef splits an api.Job.Ref. Any other text with a semicolon is an id.
func SplitRef(ref string) (id, cluster string) {
	if m := clusterRef.FindStringSubmatch(ref); m != nil {
		return m[1], m[2]
	}
	return ref, ""
}

var clusterRef = regexp.MustCompile(`^(\d[^;]*);([A-Za-z0-9_][A-Za-z0-9_.-]*)$`)

// WholeRef is what the submit command would have printed for a job: of a task, its array.
func WholeRef(s Scheduler, job api.Job) (ref string) {
	job.ID = s.ArrayOf(job.ID)
	return job.Ref()
}

// PickRecord is Pick, and returns the record of the job too.
func PickRecord[R any](s Scheduler, records []R, jobOf func(R) api.Job, id string) (job api.Job, r R, ok bool) {
	jobs := lists.Map(records, jobOf)
	if job, ok = Pick(s, jobs, id); ok {
		r = records[slices.IndexFunc(jobs, func(j api.Job) bool { return j.ID == job.ID })]
	}
	return job, r, ok
}

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

// SeveralNodes is a list of nodes, "" if it has but one.
func SeveralNodes(list string) string {
	list = strings.TrimSpace(list)
	if strings.ContainsAny(list, ",[") {
		return list
	}
	return ""
}

// ExpandNodes expands Slurm's notation for nodes, to at most that many: cn[01-02,07],gpu[1-2]n[0-1],login.
func ExpandNodes(list string, most int) []string {
	var all []string
	for _, item := range nodesItem.FindAllString(list, -1) {
		all = append(all, expandItem(item, most-len(all))...)
	}
	return all
}

// nodesItem matches what stands between two commas that are not in brackets.
var nodesItem = regexp.MustCompile(`(?:\[[^\]]*\]?|[^,\[])+`)

func expandItem(item string, most int) []string {
	name, rest, several := strings.Cut(item, "[")
	if !several {
		return []string{item}[:min(most, 1)]
	}
	inside, after, _ := strings.Cut(rest, "]")
	var list []string
	for _, number := range expandRanges(inside, most) {
		for _, end := range expandItem(after, most-len(list)) {
			list = append(list, name+number+end)
		}
	}
	return list
}

// expandRanges expands 01-03,07; the numbers are as wide as the first is written.
func expandRanges(text string, most int) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		var from, to int
		if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n < 2 {
			list = append(list, part)
			continue
		}
		first, _, _ := strings.Cut(part, "-")
		for i := from; i <= to && len(list) < most; i++ {
			list = append(list, fmt.Sprintf("%0*d", len(first), i))
		}
	}
	return list
}
