package jobwatch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"tunctl/internal/posixsh"
)

// directiveSyntax says how a job script has options of the submit command.
type directiveSyntax struct {
	prefix string // begins the lines that have some
	// anywhere: such lines count also after the first command of a script.
	anywhere bool
	// wholeWords: an option is a word of its own, so that -pe is not -p with the value e.
	wholeWords bool
	// long are the long forms of short options, if the scheduler has any.
	long map[string]string
	// variables are those of the environment that stand for an option.
	variables func(option string) []string
	// defaults is the sh command that succeeds if a file of the person may have options.
	defaults string
}

func (d *directiveSyntax) longForm(option string) string {
	if long, ok := d.long[option]; ok {
		return long
	}
	return option
}

// words are the options in the lines of a script.
func (d *directiveSyntax) words(script string) []string {
	var words []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		options, ok := strings.CutPrefix(line, d.prefix)
		switch {
		case ok:
			words = append(words, splitOptions(options)...)
		case line != "" && !strings.HasPrefix(line, "#") && !d.anywhere:
			return words // the first command
		}
	}
	return words
}

// splitOptions splits a line of options into words. Quotes join words, and a word that begins
// with # begins a comment.
func splitOptions(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	inside := false // a word
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inside = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if inside {
				words = append(words, word.String())
				word.Reset()
			}
			inside = false
		case quote == 0 && c == '#' && !inside:
			return words
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if inside {
		words = append(words, word.String())
	}
	return words
}

// required reads an option that a site requires, as "--account=ACCOUNT" or "-l walltime=HH:MM:SS".
func (d *directiveSyntax) required(text string) option {
	for _, o := range d.options(strings.Fields(text)) {
		return o
	}
	return option{name: text}
}

// has reports whether a list has a required option: of -l and the like, the same resource. A long
// one may be shortened, as in getopt.
func (d *directiveSyntax) has(list []option, required option) bool {
	resource, _, hasResource := strings.Cut(required.value, "=")
	return slices.ContainsFunc(list, func(o option) bool {
		if len(d.long) > 0 {
			return o.name != "" && strings.HasPrefix(required.name, o.name)
		}
		return o.name == required.name && (!hasResource ||
			slices.ContainsFunc(strings.Split(o.value, ","), func(item string) bool { return strings.HasPrefix(item, resource+"=") }))
	})
}

// MissingOptions returns those of the required options that a submission would not have:
// neither in its arguments nor in its script nor in the person's environment on the host.
// If that cannot be told, none is missing: the scheduler decides.
func (w *Watcher) MissingOptions(ctx context.Context, s Submission, required []string) ([]string, error) {
	if len(required) == 0 {
		return nil, nil
	}
	sched, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	d := &sched.kind().directives
	if d.prefix == "" {
		return nil, nil
	}
	list := slices.Concat(d.options(s.Args), d.options(d.words(string(s.Content))))
	missing := slices.DeleteFunc(slices.Clone(required), func(text string) bool { return d.has(list, d.required(text)) })
	if len(missing) == 0 {
		return nil, nil
	}
	there, err := w.readOptions(ctx, d, s)
	if err != nil || there == nil {
		return nil, err
	}
	list = append(list, there.options...)
	return slices.DeleteFunc(missing, func(text string) bool {
		r := d.required(text)
		return d.has(list, r) || d.variables != nil && slices.ContainsFunc(d.variables(r.name), func(name string) bool { return slices.Contains(there.variables, name) })
	}), nil
}

// hostOptions are the options that a submission gets on the host.
type hostOptions struct {
	options   []option // those of a script there
	variables []string // the names of the person's variables
}

// maxScript is how much of a script is read for its options, which come first.
const maxScript = "65536"

// readOptions reads the options of a submission that are on the host; nil if they cannot be
// read.
func (w *Watcher) readOptions(ctx context.Context, d *directiveSyntax, s Submission) (*hostOptions, error) {
	script := "cd " + posixsh.QuotePath(cmp.Or(s.Workdir, "~")) + " 2>/dev/null\n"
	if d.defaults != "" {
		script += "if " + d.defaults + "; then exit 3; fi\n"
	}
	script += "env | LC_ALL=C sed -n 's/^\\([A-Z][A-Z0-9_]*\\)=..*/\\1/p'\n" // names only: values may be secret
	script += "printf '%s\\n' tunctl.script\n"
	if s.Script != "" {
		script += "head -c " + maxScript + " <" + posixsh.QuotePath(s.Script) + " || exit 3\n"
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	res, err := w.sh.Login(ctx, script)
	if err != nil || res.Exit != 0 {
		return nil, err // Submit says what is wrong with the script
	}
	names, text, _ := strings.Cut(string(res.Stdout), "tunctl.script\n")
	return &hostOptions{options: d.options(d.words(strings.ReplaceAll(text, "\r", ""))), variables: strings.Fields(names)}, nil
}
