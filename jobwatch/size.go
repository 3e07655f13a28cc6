package jobwatch

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is the most that a submission may take, as far as its options say it. Zero is not
// said, or not understood.
type Size struct {
	Time  time.Duration // of each job
	Nodes int           // of all jobs of an array together
}

// SizeOf reads the size of a submission from its arguments and its script. Unlike RequestOf
// it is never too small: of an option that a script repeats, the largest value counts.
func (w *Watcher) SizeOf(ctx context.Context, s Submission, script string) (Size, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return Size{}, err
	}
	k := kindOf(sched.name())
	if k.size == nil {
		return Size{}, nil
	}
	d := &k.directives
	words := d.words(script)
	if slices.ContainsFunc(words, isSeveralJobs) || slices.ContainsFunc(s.Args, isSeveralJobs) {
		return Size{}, nil
	}
	return k.size(repeated{script: d.options(words), args: d.options(s.Args)}), nil
}

// isSeveralJobs recognises what separates the jobs of a heterogeneous job of Slurm.
func isSeveralJobs(word string) bool { return word == "hetjob" || word == "packjob" || word == ":" }

// repeated are the options of a submission, each of which may be given several times.
type repeated struct{ script, args []option }

// unknownSize stands for a value that is not understood: too much for any limit.
const unknownSize = math.MaxInt32

// largest is the largest value of an option; that of an argument has precedence over those of
// the script. read returns unknownSize for what it does not understand.
func (r repeated) largest(values func([]option) []string, read func(string) int) (size int, given bool) {
	if list := values(r.args); len(list) > 0 {
		return read(list[len(list)-1]), true
	}
	for _, text := range values(r.script) {
		size, given = max(size, read(text)), true
	}
	return size, given
}

// option is largest for an option of its own, resource for one in the -l options.
func (r repeated) option(name string, read func(string) int) (int, bool) {
	return r.largest(func(list []option) (values []string) {
		for _, o := range list {
			if o.name == name {
				values = append(values, o.value)
			}
		}
		return values
	}, read)
}

func (r repeated) resource(name string, read func(string) int) (int, bool) {
	return r.largest(func(list []option) (values []string) {
		for _, o := range list {
			if text, ok := resource([]option{o}, name); ok {
				values = append(values, text)
			}
		}
		return values
	}, read)
}

// sizeOf is the size of an array of so many jobs.
func sizeOf(seconds, nodes, jobs int) Size {
	nodes, jobs = max(nodes, 1), max(jobs, 1)
	if nodes >= unknownSize/jobs {
		nodes = 0
	}
	if seconds >= unknownSize {
		seconds = 0
	}
	return Size{Time: time.Duration(seconds) * time.Second, Nodes: nodes * jobs}
}

// number reads a positive number.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1e6 {
		return unknownSize
	}
	return n
}

// arrayJobs reads how many jobs an array has: "1-10", "0-9:3%2", "1,5,7-9".
func arrayJobs(text string) int {
	text, _, _ = strings.Cut(text, "%") // how many at a time
	jobs := 0
	for item := range strings.SplitSeq(text, ",") {
		m := arrayItem.FindStringSubmatch(item)
		if m == nil {
			return unknownSize
		}
		n := 1
		if m[2] != "" {
			first, last, step := count(m[1], 0), count(m[2], unknownSize), max(count(m[3], 1), 1)
			n = max(0, last-first)/step + 1
		}
		jobs += n
	}
	return min(jobs, unknownSize)
}

var arrayItem = regexp.MustCompile(`^(\d+)(?:-(\d+)(?::(\d+))?)?$`)

// lastNumber reads a number, or the end of a range: "4", "1-8".
func lastNumber(text string) int {
	_, last, isRange := strings.Cut(text, "-")
	if isRange {
		return number(last)
	}
	return number(text)
}

// seconds makes the reader of a time limit one of its seconds.
func seconds(read func(string) time.Duration) func(string) int {
	return func(text string) int {
		if limit := read(text); limit > 0 && limit < unknownSize*time.Second {
			return int(limit / time.Second)
		}
		return unknownSize // also UNLIMITED
	}
}
