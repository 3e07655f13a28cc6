package sched

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Demand is what the options of a job ask for. Zero is not said.
type Demand struct {
	Time      time.Duration
	Nodes     int
	CPUs      int // of all nodes together
	GPUs      int
	Exclusive bool // no other job runs on its nodes
	Most      int  // on how many nodes the job may be; 0: not known
	ArraySize int  // how many jobs an array has, else 1
}

// TooMuch stands for a value that is not understood: too much for any limit.
const TooMuch = math.MaxInt32

// WhichValue says which value of an option counts that a script has several times. A program may
// read a script otherwise than we do, so that only the largest value is on the safe side.
type WhichValue bool

// Which value counts.
const (
	LastValue    WhichValue = false
	LargestValue WhichValue = true // and TooMuch if one is not understood
)

// OptionSet are the options of a submission.
type OptionSet struct {
	Script, Args []Option
	Counts       WhichValue
}

// All are the options in the order in which the scheduler reads them.
func (g OptionSet) All() []Option { return slices.Concat(g.Script, g.Args) }

// Number is the value of an option as read understands it, or other. An argument has precedence over the script.
func (g OptionSet) Number(name string, other int, read func(string) (int, bool)) int {
	values := valuesOf(g.Args, name)
	if len(values) == 0 {
		values = valuesOf(g.Script, name)
	} else {
		values = values[len(values)-1:]
	}
	best := -1
	for _, text := range values {
		n, ok := read(text)
		switch {
		case g.Counts == LastValue && !ok:
			n = other
		case g.Counts == LargestValue && !ok:
			n = TooMuch
		case g.Counts == LargestValue:
			n = max(n, best)
		}
		best = n
	}
	if best < 0 {
		return other
	}
	return best
}

// Number reads a number, or the end of a range: "4", "1-8".
func Number(text string) (int, bool) {
	_, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = text
	}
	n, err := strconv.Atoi(last)
	return n, err == nil && n > 0 && n <= 1e6
}

// SumOf makes the reader of an item one of a list of them.
func SumOf(separator string, read func(string) (int, bool)) func(string) (int, bool) {
	return func(text string) (sum int, ok bool) {
		for item := range strings.SplitSeq(text, separator) {
			n, ok := read(item)
			if !ok {
				return 0, false
			}
			sum += n
		}
		return min(sum, TooMuch), true
	}
}

// ArrayJobs reads how many jobs an array has: "1-10", "0-9:3%2", "1,5,7-9".
func ArrayJobs(text string) (int, bool) {
	text, _, _ = strings.Cut(text, "%") // how many at a time
	return SumOf(",", func(item string) (int, bool) {
		m := arrayItem.FindStringSubmatch(item)
		if m == nil {
			return 0, false
		}
		first, last, step := Count(m[1], 0), Count(m[2], TooMuch), max(Count(m[3], 1), 1)
		if m[2] == "" {
			last = first
		}
		return max(0, last-first)/step + 1, true
	})(text)
}

var arrayItem = regexp.MustCompile(`^(\d+)(?:-(\d+)(?::(\d+))?)?$`)

// Seconds makes the reader of a time limit one of its seconds; zero, also for UNLIMITED, is none.
func Seconds(read func(string) time.Duration) func(string) (int, bool) {
	return func(text string) (int, bool) {
		limit := read(text)
		return int(limit / time.Second), limit > 0 && limit < TooMuch*time.Second
	}
}

// Count reads the number that a text begins with; other if there is none.
func Count(text string, other int) int {
	n, err := strconv.Atoi(leadingNumber.FindString(text))
	if err != nil || n < 0 || n > 1e6 {
		return other
	}
	return n
}
