package sched

import (
	"iter"
	"regexp"
	"slices"
	"strings"
)

// Options are the options in the words of a command line or of a script's lines.
func (d *Directives) Options(words []string) []Option {
	var list []Option
	for o := range d.split(words) {
		if o.Name != "" {
			list = append(list, o)
		}
	}
	return list
}

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

// Items are the options in words as they are written, the resources of -l one by one.
func (d *Directives) Items(words []string) map[string]string {
	items := map[string]string{}
	for _, o := range d.Options(words) {
		switch {
		case len(d.Long) > 0:
			items["--"+o.Name] = o.Value
		case o.Name == "l":
			for item := range strings.SplitSeq(o.Value, ",") {
				name, value, _ := strings.Cut(item, "=")
				items["-l "+name] = value
			}
		default:
			items["-"+o.Name] = o.Value
		}
	}
	return items
}

// With adds an option to arguments, in place of an earlier one for the same.
func (d *Directives) With(args []string, o Option) []string {
	kept := d.without(args, o)
	if len(d.Long) > 0 {
		return append(kept, "--"+o.Name+"="+o.Value)
	}
	return append(append(kept, "-"+o.Name), strings.Fields(o.Value)...)
}

// without removes an option from arguments; of a list of resources only the one that o sets.
// Where there are long options the last one counts, and nothing has to be removed.
func (d *Directives) without(args []string, o Option) []string {
	if len(d.Long) > 0 {
		return slices.Clone(args)
	}
	var kept []string
	for given, words := range d.split(args) {
		if given.Name != o.Name {
			kept = append(kept, words...)
		} else if o.Name == "l" {
			name, _, _ := strings.Cut(o.Value, "=")
			items := slices.DeleteFunc(strings.Split(given.Value, ","), func(item string) bool { return strings.HasPrefix(item, name+"=") })
			if len(items) > 0 {
				kept = append(kept, "-l", strings.Join(items, ","))
			}
		}
	}
	return kept
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
	// Defaults is the sh command that succeeds if a file of the person may have options.
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

// Required reads an option that a site requires, as "--account=ACCOUNT" or "-l walltime=HH:MM:SS".
func (d *Directives) Required(text string) Option {
	for _, o := range d.Options(strings.Fields(text)) {
		return o
	}
	return Option{Name: text}
}

// Has reports whether a list has a required option: of -l and the like, the same resource. A long
// one may be shortened, as in getopt.
func (d *Directives) Has(list []Option, required Option) bool {
	resource, _, hasResource := strings.Cut(required.Value, "=")
	return slices.ContainsFunc(list, func(o Option) bool {
		if len(d.Long) > 0 {
			return o.Name != "" && strings.HasPrefix(required.Name, o.Name)
		}
		return o.Name == required.Name && (!hasResource ||
			slices.ContainsFunc(strings.Split(o.Value, ","), func(item string) bool { return strings.HasPrefix(item, resource+"=") }))
	})
}
