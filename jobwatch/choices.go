package jobwatch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// option is an option of a submit command with its value.
type option struct{ name, value string }

// options are the options in the words of a command line or of a script's lines.
func (d *directiveSyntax) options(words []string) []option {
	var list []option
	for o := range d.split(words) {
		if o.name != "" {
			list = append(list, o)
		}
	}
	return list
}

// split yields each option with its words, and each other word with no option.
func (d *directiveSyntax) split(words []string) iter.Seq2[option, []string] {
	return func(yield func(option, []string) bool) {
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
func (d *directiveSyntax) firstOption(words []string) (o option, n int) {
	text := strings.TrimLeft(words[0], "-")
	dashes := len(words[0]) - len(text)
	if dashes == 0 || text == "" {
		return option{}, 1
	}
	whole := false
	switch {
	case dashes > 1:
		o.name, o.value, whole = strings.Cut(text, "=")
	case !d.wholeWords && len(text) > 1:
		o, whole = option{d.longForm(text[:1]), text[1:]}, true
	default:
		o.name = d.longForm(text)
	}
	for n = 1; !whole && n < len(words) && !strings.HasPrefix(words[n], "-"); n++ {
		o.value = strings.TrimSpace(o.value + " " + words[n])
		whole = !d.wholeWords // -pe has two values
	}
	return o, n
}

// valuesOf are the values of an option. "-l NAME" is a resource in the -l options.
func valuesOf(list []option, name string) (values []string) {
	resource, isResource := strings.CutPrefix(name, "-l ")
	for _, o := range list {
		switch {
		case !isResource && o.name == name:
			values = append(values, o.value)
		case isResource && o.name == "l":
			for item := range strings.SplitSeq(o.value, ",") {
				if text, found := strings.CutPrefix(item, resource+"="); found {
					values = append(values, text)
				}
			}
		}
	}
	return values
}

// lastOption is the value of an option: the last one counts.
func lastOption(list []option, name string) (value string, ok bool) {
	if values := valuesOf(list, name); len(values) > 0 {
		return values[len(values)-1], true
	}
	return "", false
}

// chosen is one of a person's choices, to become an argument of the submit command.
type chosen struct {
	name, value string
	given       []option // of the job's script, then of the session's arguments, which have precedence
}

// choiceWord makes the argument of the submit command for a choice.
type choiceWord func(chosen) (option, error)

// optionWord is the word of a choice that is the value of an option.
func optionWord(name string) choiceWord {
	return func(c chosen) (option, error) { return option{name, c.value}, nil }
}

// resourceWord is the word of a choice that is the value of a resource.
func resourceWord(name string) choiceWord {
	return func(c chosen) (option, error) { return option{"l", name + "=" + c.value}, nil }
}

// hoursAs writes a choice of hours as a time limit.
func hoursAs(word choiceWord) choiceWord {
	return func(c chosen) (option, error) {
		d, err := time.ParseDuration(c.value + "h")
		if err != nil {
			return option{}, c.refuse("it is not a number of hours", "write 2 or 0.5")
		}
		c.value = clockTime((d + time.Minute - 1).Truncate(time.Minute)) // for Slurm, zero means no limit
		return word(c)
	}
}

// refuse is the error of a choice that has no word.
func (c *chosen) refuse(why, hint string) error {
	return api.Errorf(api.CodeUsage, "%s=%s cannot be passed to the scheduler: %s", c.name, c.value, why).
		WithHint("%s", hint)
}

// ChoiceNames are the choices that become arguments of a scheduler's submit command.
func ChoiceNames(scheduler string) []string {
	if k := kindNamed(scheduler); k != nil {
		return slices.Sorted(maps.Keys(k.choices))
	}
	return nil
}

// WithChoices is the submission with a person's choices as arguments of the submit command,
// in place of arguments for the same. It is for scripts that tunctl has not written.
func (w *Watcher) WithChoices(ctx context.Context, s Submission, choices map[string]string) (Submission, error) {
	if len(choices) == 0 {
		return s, nil
	}
	sched, err := w.scheduler(ctx)
	if err != nil {
		return s, err
	}
	kind := sched.kind()
	script, err := w.Script(ctx, s)
	if err != nil {
		return s, err
	}
	d := &kind.directives
	inScript := d.options(d.words(script))
	set := map[string]string{} // by which choice an option is set
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		c := chosen{name, choices[name], slices.Concat(inScript, d.options(s.Args))}
		word, ok := kind.choices[name]
		if !ok {
			return s, c.refuse(kind.name+" has no word for it", wordsHint(kind))
		}
		o, err := word(c)
		if err != nil {
			return s, err
		}
		if earlier := set[o.name]; earlier != "" && o.name != "l" && choices[earlier] != c.value {
			return s, c.refuse(fmt.Sprintf("%s=%s is the same option", earlier, choices[earlier]), "give one of them")
		}
		set[o.name] = name
		s.Args = d.with(s.Args, o)
	}
	return s, nil
}

// OverriddenOptions are the options in the submission's arguments that override what its script
// has, and other, an earlier form of the script, has not: a scheduler prefers arguments.
func (w *Watcher) OverriddenOptions(ctx context.Context, s Submission, other []byte) ([]string, error) {
	sched, err := w.scheduler(ctx)
	if err != nil || len(s.Args) == 0 {
		return nil, err
	}
	d := &sched.kind().directives
	before := d.items(d.words(string(other)))
	args := d.items(s.Args)
	var list []string
	for name, value := range d.items(d.words(string(s.Content))) {
		if _, given := args[name]; given && before[name] != value {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, nil
}

// items are the options in words as they are written, the resources of -l one by one.
func (d *directiveSyntax) items(words []string) map[string]string {
	items := map[string]string{}
	for _, o := range d.options(words) {
		switch {
		case len(d.long) > 0:
			items["--"+o.name] = o.value
		case o.name == "l":
			for item := range strings.SplitSeq(o.value, ",") {
				name, value, _ := strings.Cut(item, "=")
				items["-l "+name] = value
			}
		default:
			items["-"+o.name] = o.value
		}
	}
	return items
}

func wordsHint(k *schedulerKind) string {
	if len(k.choices) == 0 {
		return "a host without a scheduler has no limits to choose: give the script its values in args of the session"
	}
	return "available: " + strings.Join(slices.Sorted(maps.Keys(k.choices)), ", ") + "; or write it in the script, or in args of the session"
}

// Named is the submission with another name of the job, where the scheduler has names.
func (w *Watcher) Named(ctx context.Context, s Submission, name string) (Submission, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return s, err
	}
	kind := sched.kind()
	if kind.jobName != "" {
		s.Args = kind.directives.with(s.Args, option{kind.jobName, name})
	}
	s.Base = name + ".sh"
	return s, nil
}

// with adds an option to arguments, in place of an earlier one for the same.
func (d *directiveSyntax) with(args []string, o option) []string {
	kept := d.without(args, o)
	if len(d.long) > 0 {
		return append(kept, "--"+o.name+"="+o.value)
	}
	return append(append(kept, "-"+o.name), strings.Fields(o.value)...)
}

// without removes an option from arguments; of a list of resources only the one that o sets.
// Where there are long options the last one counts, and nothing has to be removed.
func (d *directiveSyntax) without(args []string, o option) []string {
	if len(d.long) > 0 {
		return slices.Clone(args)
	}
	var kept []string
	for given, words := range d.split(args) {
		if given.name != o.name {
			kept = append(kept, words...)
		} else if o.name == "l" {
			name, _, _ := strings.Cut(o.value, "=")
			items := slices.DeleteFunc(strings.Split(given.value, ","), func(item string) bool { return strings.HasPrefix(item, name+"=") })
			if len(items) > 0 {
				kept = append(kept, "-l", strings.Join(items, ","))
			}
		}
	}
	return kept
}

// Script is the text of the submission's script, as far as schedulers look for options in it.
func (w *Watcher) Script(ctx context.Context, s Submission) (string, error) {
	if s.Script == "" {
		return strings.ReplaceAll(string(s.Content), "\r\n", "\n"), nil
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	res, err := w.sh.Login(ctx, "cd "+posixsh.QuotePath(cmp.Or(s.Workdir, "~"))+" && head -c "+maxScript+" <"+posixsh.QuotePath(s.Script))
	if err != nil {
		return "", err
	}
	if res.Exit != 0 {
		return "", api.Errorf(api.CodeSubmit, "cannot read the job script %q on the host: %s", s.Script, lastErrorLine(res)).
			WithHint("paths start in your home folder there; write local:FILE for a file on this machine")
	}
	return strings.ReplaceAll(string(res.Stdout), "\r\n", "\n"), nil
}
