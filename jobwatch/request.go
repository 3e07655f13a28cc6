package jobwatch

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/posixsh"
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
	r, err := w.demandOf(ctx, s, script, lastValue)
	return r.Request, err
}

// SizeOf reads the size of a submission from its arguments and its script. Unlike RequestOf
// it is never too small: of an option that a script repeats, the largest value counts.
func (w *Watcher) SizeOf(ctx context.Context, s Submission, script string) (Size, error) {
	r, err := w.demandOf(ctx, s, script, largestValue)
	return r.size(), err
}

func (w *Watcher) demandOf(ctx context.Context, s Submission, script string, counts whichValue) (demand, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return demand{}, err
	}
	k := sched.kind()
	words := k.directives.words(script)
	if k.demand == nil || counts == largestValue && slices.ContainsFunc(slices.Concat(words, s.Args), isSeveralJobs) {
		return demand{}, nil
	}
	o := givenOptions{script: k.directives.options(words), args: k.directives.options(s.Args), counts: counts}
	r := k.demand(o)
	r.Name, _ = lastOption(o.all(), k.jobName)
	return r, nil
}

// SharedLog is the log that all jobs of the submission would write to, if its options name one,
// and how a person gives each job its own.
func (w *Watcher) SharedLog(ctx context.Context, s Submission) (log, hint string, err error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return "", "", err
	}
	k := sched.kind()
	if k.logOption == "" {
		return "", "", nil
	}
	script, err := w.Script(ctx, s)
	if err != nil {
		return "", "", err
	}
	d := &k.directives
	log, _ = lastOption(slices.Concat(d.options(d.words(script)), d.options(s.Args)), k.logOption)
	if host, file, ok := strings.Cut(log, ":"); ok && k.logFolders && !strings.Contains(host, "/") {
		log = file
	}
	if log == "/dev/null" || k.ownLog.MatchString(log) {
		return "", "", nil
	}
	if log != "" && k.logFolders {
		if folder, err := w.isFolder(ctx, s.Workdir, log); err != nil || folder {
			return "", "", err
		}
	}
	return log, k.logHint, nil
}

// qsubOwnLog matches the variables that differ between jobs of qsub.
var qsubOwnLog = regexp.MustCompile(`\$\{?(?:JOB_|PBS_JOB)`)

// isFolder reports whether a path in a job's options is a folder on the host. Schedulers
// replace $HOME and $USER in it.
func (w *Watcher) isFolder(ctx context.Context, workdir, file string) (bool, error) {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = "$HOME/" + rest
	}
	word := strings.NewReplacer("$HOME", `'"$HOME"'`, "$USER", `'"$USER"'`).Replace(posixsh.Quote(file))
	res, err := w.sh.plain(ctx, "cd "+posixsh.QuotePath(orHome(workdir))+" && test -d "+word)
	return err == nil && res.Exit == 0, err
}

// CommandOf is the command that would submit it, as a person would type it on the host.
func (w *Watcher) CommandOf(ctx context.Context, s Submission) (string, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return "", err
	}
	k := sched.kind()
	script := s.Script
	if script == "" {
		script = s.base()
	}
	words := make([]string, len(s.Args))
	for i, a := range s.Args {
		words[i] = a
		if !plainWord.MatchString(a) {
			words[i] = posixsh.Quote(a)
		}
	}
	if k.program == "" { // the script itself gets the arguments
		words = append([]string{script}, words...)
	} else {
		words = append(append([]string{k.program}, words...), script)
	}
	command := strings.Join(words, " ")
	if s.Workdir != "" {
		command = "cd " + s.Workdir + " && " + command
	}
	return command, nil
}

// plainWord matches words that mean themselves to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)
