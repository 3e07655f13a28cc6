package jobwatch

import (
	"cmp"
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"
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
	d, err := w.demandOf(ctx, s, script, largestValue)
	var size Size
	if d.Time < tooMuch*time.Second {
		size.Time = d.Time
	}
	if d.most < tooMuch/max(d.jobs, 1) {
		size.Nodes = d.most * d.jobs
	}
	return size, err
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
	res, err := w.sh.Plain(ctx, "cd "+posixsh.QuotePath(cmp.Or(workdir, "~"))+" && test -d "+word)
	return err == nil && res.Exit == 0, err
}

// CommandOf is the command that would submit it, as a person would type it on the host.
func (w *Watcher) CommandOf(ctx context.Context, s Submission) (string, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return "", err
	}
	k := sched.kind()
	script := cmp.Or(s.Script, s.base())
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

// demand is what the options of a job ask for.
type demand struct {
	Request
	most int // on how many nodes the job may be; 0: not known
	jobs int // how many an array has, else 1
}

// tooMuch stands for a value that is not understood: too much for any limit.
const tooMuch = math.MaxInt32

// whichValue says which value of an option counts that a script has several times. A program may
// read a script otherwise than we do, so that only the largest value is on the safe side.
type whichValue bool

const (
	lastValue    whichValue = false
	largestValue whichValue = true // and tooMuch if one is not understood
)

// givenOptions are the options of a submission.
type givenOptions struct {
	script, args []option
	counts       whichValue
}

// all are the options in the order in which the scheduler reads them.
func (g givenOptions) all() []option { return slices.Concat(g.script, g.args) }

// number is the value of an option, or of a resource as in valuesOf, as read understands it, or
// other. An argument has precedence over the script.
func (g givenOptions) number(name string, other int, read func(string) (int, bool)) int {
	values := valuesOf(g.args, name)
	if len(values) == 0 {
		values = valuesOf(g.script, name)
	} else {
		values = values[len(values)-1:]
	}
	best := -1
	for _, text := range values {
		n, ok := read(text)
		switch {
		case g.counts == lastValue && !ok:
			n = other
		case g.counts == largestValue && !ok:
			n = tooMuch
		case g.counts == largestValue:
			n = max(n, best)
		}
		best = n
	}
	if best < 0 {
		return other
	}
	return best
}

// isSeveralJobs recognises what separates the jobs of a heterogeneous job of Slurm.
func isSeveralJobs(word string) bool { return word == "hetjob" || word == "packjob" || word == ":" }

// number reads a number, or the end of a range: "4", "1-8".
func number(text string) (int, bool) {
	_, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = text
	}
	n, err := strconv.Atoi(last)
	return n, err == nil && n > 0 && n <= 1e6
}

// sumOf makes the reader of an item one of a list of them.
func sumOf(separator string, read func(string) (int, bool)) func(string) (int, bool) {
	return func(text string) (sum int, ok bool) {
		for item := range strings.SplitSeq(text, separator) {
			n, ok := read(item)
			if !ok {
				return 0, false
			}
			sum += n
		}
		return min(sum, tooMuch), true
	}
}

// arrayJobs reads how many jobs an array has: "1-10", "0-9:3%2", "1,5,7-9".
func arrayJobs(text string) (int, bool) {
	text, _, _ = strings.Cut(text, "%") // how many at a time
	return sumOf(",", func(item string) (int, bool) {
		m := arrayItem.FindStringSubmatch(item)
		if m == nil {
			return 0, false
		}
		first, last, step := count(m[1], 0), count(m[2], tooMuch), max(count(m[3], 1), 1)
		if m[2] == "" {
			last = first
		}
		return max(0, last-first)/step + 1, true
	})(text)
}

var arrayItem = regexp.MustCompile(`^(\d+)(?:-(\d+)(?::(\d+))?)?$`)

// seconds makes the reader of a time limit one of its seconds; zero, also for UNLIMITED, is none.
func seconds(read func(string) time.Duration) func(string) (int, bool) {
	return func(text string) (int, bool) {
		limit := read(text)
		return int(limit / time.Second), limit > 0 && limit < tooMuch*time.Second
	}
}

// count reads the number that a text begins with; other if there is none.
func count(text string, other int) int {
	n, err := strconv.Atoi(leadingNumber.FindString(text))
	if err != nil || n < 0 || n > 1e6 {
		return other
	}
	return n
}
