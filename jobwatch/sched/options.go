package sched

import (
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Option is an option of a submit command with its value. The name of a resource in -l is "-l NAME".
type Option struct{ Name, Value string }

// valuesOf are the values of an option.
func valuesOf(list []Option, name string) (values []string) {
	for _, o := range list {
		if o.Name == name {
			values = append(values, o.Value)
		}
	}
	return values
}

// LastOption is the value of an option: the last one counts.
func LastOption(list []Option, name string) (value string, ok bool) {
	if values := valuesOf(list, name); len(values) > 0 {
		return values[len(values)-1], true
	}
	return "", false
}

// Place is where the value of a choice stands among the options of the submit command.
type Place struct {
	Name          string // of the option
	Before, After string // the parts of its value that stay
	Hours         bool   // the choice is a number of hours, and the value a time limit
}

// PlaceFor is the place of a choice in a job with these options: those of its script, then those of the
// session's arguments, which have precedence. Its error is a Refusal.
type PlaceFor func(given []Option) (Place, error)

// At is the same place in every job.
func At(name string) PlaceFor { return Place{Name: name}.always }

// HoursAt is the place of a time limit.
func HoursAt(name string) PlaceFor { return Place{Name: name, Hours: true}.always }

func (p Place) always([]Option) (Place, error) { return p, nil }

// With is the option with the value of a choice.
func (p Place) With(value string) (Option, error) {
	if p.Hours {
		d, err := time.ParseDuration(value + "h")
		if err != nil {
			return Option{}, Refusal("it is not a number of hours", "write 2 or 0.5")
		}
		value = ClockTime((d + time.Minute - 1).Truncate(time.Minute)) // for Slurm, zero means no limit
	}
	return Option{p.Name, p.Before + value + p.After}, nil
}

// ValueIn is the value at the place in a job's options; "" if there is none.
func (p Place) ValueIn(given []Option) string {
	has, _ := LastOption(given, p.Name)
	value, begins := strings.CutPrefix(has, p.Before)
	value, ends := strings.CutSuffix(value, p.After)
	if !begins || !ends {
		return ""
	}
	return value
}

// Refusal says why a choice cannot become an option.
func Refusal(why, hint string) error {
	return api.Errorf(api.CodeUsage, "%s", why).WithHint("%s", hint)
}

// QsubOwnLog matches the variables that differ between jobs of qsub.
var QsubOwnLog = regexp.MustCompile(`\$\{?(?:JOB_|PBS_JOB)`)

// Options are the options in the words of a command line or of a script's lines, the resources of -l one by one.
func (d *Directives) Options(words []string) []Option {
	var list []Option
	for o := range d.split(words) {
		if d.isResources(o) {
			for item := range strings.SplitSeq(o.Value, ",") {
				name, value, _ := strings.Cut(item, "=")
				list = append(list, Option{resourcePrefix + name, value})
			}
		} else if o.Name != "" {
			list = append(list, o)
		}
	}
	return list
}

// resourcePrefix begins the name of an option that is a resource in -l.
const resourcePrefix = "-l "

// isResources reports whether an option as it is written is a list of resources.
func (d *Directives) isResources(o Option) bool { return o.Name == "l" && len(d.Long) == 0 }

// split yields each option with its words, and each other word with no option.
func (d *Directives) split(words []string) iter.Seq2[Option, []string] {
	return func(yield func(Option, []string) bool) {
		for len(words) > 0 {
			o, n := d.firstOption(words)
			if !yield(o, words[:n]) {
				return
			}
			words = words[n:]
		}
	}
}

// firstOption reads the option that words begin with, and says how many words it has. Its name is
// empty if they begin with another word.
func (d *Directives) firstOption(words []string) (o Option, n int) {
	text := strings.TrimLeft(words[0], "-")
	dashes := len(words[0]) - len(text)
	if dashes == 0 || text == "" {
		return Option{}, 1
	}
	whole := false
	switch {
	case dashes > 1:
		o.Name, o.Value, whole = strings.Cut(text, "=")
	case !d.WholeWords && len(text) > 1:
		o, whole = Option{d.longForm(text[:1]), text[1:]}, true
	default:
		o.Name = d.longForm(text)
	}
	for n = 1; !whole && n < len(words) && !strings.HasPrefix(words[n], "-"); n++ {
		o.Value = strings.TrimSpace(o.Value + " " + words[n])
		whole = !d.WholeWords // -pe has two values
	}
	return o, n
}

// Items are the values of the options in words, by the options as they are written.
func (d *Directives) Items(words []string) map[string]string {
	dashes := "-"
	if len(d.Long) > 0 {
		dashes = "--"
	}
	items := map[string]string{}
	for _, o := range d.Options(words) {
		items[dashes+strings.TrimPrefix(o.Name, "-")] = o.Value
	}
	return items
}

// With adds an option to arguments, in place of an earlier one for the same.
func (d *Directives) With(args []string, o Option) []string {
	if len(d.Long) > 0 { // the last one counts
		return append(slices.Clone(args), "--"+o.Name+"="+o.Value)
	}
	resource, isResource := strings.CutPrefix(o.Name, resourcePrefix)
	var kept []string
	for given, words := range d.split(args) {
		if isResource && d.isResources(given) {
			isSame := func(item string) bool { return strings.HasPrefix(item, resource+"=") }
			items := slices.DeleteFunc(strings.Split(given.Value, ","), isSame)
			if len(items) > 0 {
				kept = append(kept, "-l", strings.Join(items, ","))
			}
		} else if given.Name != o.Name {
			kept = append(kept, words...)
		}
	}
	if isResource {
		return append(kept, "-l", resource+"="+o.Value)
	}
	return append(append(kept, "-"+o.Name), strings.Fields(o.Value)...)
}

// Directives says how a job script has options of the submit command.
type Directives struct {
	Prefix string // begins the lines that have some
	// Anywhere: such lines count also after the first command of a script.
	Anywhere bool
	// WholeWords: an option is a word of its own, so that -pe is not -p with the value e.
	WholeWords bool
	// Long are the long forms of short options, if the scheduler has any.
	Long map[string]string
	// Others matches the beginnings of other schedulers' lines that the submit command reads too, unless it
	// gets the option OthersOff.
	Others    func() *regexp.Regexp
	OthersOff string
	// Variables are those of the environment that stand for an option.
	Variables func(option string) []string
	// Defaults is the sh command that succeeds if a file of the user may have options.
	Defaults string
}

func (d *Directives) longForm(option string) string {
	if long, ok := d.Long[option]; ok {
		return long
	}
	return option
}

// Words are the options in the lines of a script.
func (d *Directives) Words(script string) []string {
	var words []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		options, ok := strings.CutPrefix(line, d.Prefix)
		switch {
		case ok:
			words = append(words, splitOptions(options)...)
		case line != "" && !strings.HasPrefix(line, "#") && !d.Anywhere:
			return words // the first command
		}
	}
	return words
}

var (
	// optionWord matches a word of a line of options, in which quotes join words.
	optionWord   = regexp.MustCompile(`(?:"[^"]*"?|'[^']*'?|[^ \t"'])+`)
	quotedOption = regexp.MustCompile(`"([^"]*)"?|'([^']*)'?`)
)

// splitOptions splits a line of options into words. A word that begins with # begins a comment.
func splitOptions(line string) []string {
	var words []string
	for _, word := range optionWord.FindAllString(line, -1) {
		if word[0] == '#' {
			break
		}
		words = append(words, quotedOption.ReplaceAllString(word, "$1$2"))
	}
	return words
}

// Required reads an option that a site requires, as "--account=ACCOUNT" or "-l walltime=HH:MM:SS".
func (d *Directives) Required(text string) Option {
	for _, o := range d.Options(strings.Fields(text)) {
		return o
	}
	return Option{Name: text}
}

// Has reports whether a list has a required option. A long one may be shortened, as in getopt.
func (d *Directives) Has(list []Option, required Option) bool {
	return slices.ContainsFunc(list, func(o Option) bool {
		return o.Name == required.Name || len(d.Long) > 0 && o.Name != "" && strings.HasPrefix(required.Name, o.Name)
	})
}

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
		if !ok {
			n = map[WhichValue]int{LastValue: other, LargestValue: TooMuch}[g.Counts]
		}
		if g.Counts == LargestValue {
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
