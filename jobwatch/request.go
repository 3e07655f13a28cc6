package jobwatch

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/posixsh"
	"tunctl/jobwatch/sched"
)

// Request is what a job asks for, as far as its options say it; the scheduler's own defaults
// are not known. Zero is not said.
type Request struct {
	Name  string
	Time  time.Duration
	Nodes int
	CPUs  int // of all nodes together
	GPUs  int
	// Exclusive: no other job runs on its nodes.
	Exclusive bool
}

// Size is the most that a submission may take, as far as its options say it. Zero is not
// said, or not understood.
type Size struct {
	Time  time.Duration // of each job
	Nodes int           // of all jobs of an array together
}

// RequestOf reads what a submission asks for from its arguments and its script.
func (w *Watcher) RequestOf(ctx context.Context, s Submission, script string) (Request, error) {
	d, name, err := w.demandOf(ctx, s, script, sched.LastValue)
	return Request{Name: name, Time: d.Time, Nodes: d.Nodes, CPUs: d.CPUs, GPUs: d.GPUs, Exclusive: d.Exclusive}, err
}

// SizeOf reads the size of a submission from its arguments and its script. Unlike RequestOf
// it is never too small: of an option that a script repeats, the largest value counts.
func (w *Watcher) SizeOf(ctx context.Context, s Submission, script string) (Size, error) {
	d, _, err := w.demandOf(ctx, s, script, sched.LargestValue)
	var size Size
	if d.Time < sched.TooMuch*time.Second {
		size.Time = d.Time
	}
	if d.Most < sched.TooMuch/max(d.Jobs, 1) {
		size.Nodes = d.Most * d.Jobs
	}
	return size, err
}

// demandOf reads what a submission asks for, and the name of its job.
func (w *Watcher) demandOf(ctx context.Context, s Submission, script string, counts sched.WhichValue) (d sched.Demand, name string, err error) {
	scheduler, err := w.scheduler(ctx)
	if err != nil {
		return sched.Demand{}, "", err
	}
	kind := scheduler.Kind()
	words := kind.Directives.Words(script)
	if counts == sched.LargestValue && slices.ContainsFunc(slices.Concat(words, s.Args), isSeveralJobs) {
		return sched.Demand{}, "", nil
	}
	o := sched.OptionSet{Script: kind.Directives.Options(words), Args: kind.Directives.Options(s.Args), Counts: counts}
	name, _ = sched.LastOption(o.All(), kind.JobName)
	return scheduler.Demand(o), name, nil
}

// SharedLog is the log that all jobs of the submission would write to, if its options name one,
// and how a person gives each job its own.
func (w *Watcher) SharedLog(ctx context.Context, s Submission) (log, hint string, err error) {
	kind, err := w.kind(ctx)
	if err != nil {
		return "", "", err
	}
	if kind.LogOption == "" {
		return "", "", nil
	}
	script, err := w.Script(ctx, s)
	if err != nil {
		return "", "", err
	}
	d := &kind.Directives
	log, _ = sched.LastOption(slices.Concat(d.Options(d.Words(script)), d.Options(s.Args)), kind.LogOption)
	if host, file, ok := strings.Cut(log, ":"); ok && kind.LogFolders && !strings.Contains(host, "/") {
		log = file
	}
	if log == "/dev/null" || kind.OwnLog.MatchString(log) {
		return "", "", nil
	}
	if log != "" && kind.LogFolders {
		if folder, err := w.isFolder(ctx, s.Workdir, log); err != nil || folder {
			return "", "", err
		}
	}
	return log, kind.LogHint, nil
}

// isFolder reports whether a path in a job's options is a folder on the host. Schedulers
// replace $HOME and $USER in it.
func (w *Watcher) isFolder(ctx context.Context, workdir, file string) (bool, error) {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = "$HOME/" + rest
	}
	word := strings.NewReplacer("$HOME", `'"$HOME"'`, "$USER", `'"$USER"'`).Replace(posixsh.Quote(file))
	res, err := w.sh.Plain(ctx, "cd "+posixsh.QuotePath(cmp.Or(workdir, "~"))+" && test -d "+word)
	return err == nil && res.Exit == 0, err
}

// CommandOf is the command that would submit it, as a person would type it on the host.
func (w *Watcher) CommandOf(ctx context.Context, s Submission) (string, error) {
	kind, err := w.kind(ctx)
	if err != nil {
		return "", err
	}
	script := cmp.Or(s.Script, s.base())
	words := make([]string, len(s.Args))
	for i, a := range s.Args {
		words[i] = a
		if !plainWord.MatchString(a) {
			words[i] = posixsh.Quote(a)
		}
	}
	if kind.Program == "" { // the script itself gets the arguments
		words = append([]string{script}, words...)
	} else {
		words = append(append([]string{kind.Program}, words...), script)
	}
	command := strings.Join(words, " ")
	if s.Workdir != "" {
		command = "cd " + s.Workdir + " && " + command
	}
	return command, nil
}

// plainWord matches words that mean themselves to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// isSeveralJobs recognises what separates the jobs of a heterogeneous job of Slurm.
func isSeveralJobs(word string) bool { return word == "hetjob" || word == "packjob" || word == ":" }
