package sched

import (
	"iter"
	"regexp"
	"slices"
	"strings"
)

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

// Has reports whether a list has a required option. A long one may be shortened, as in getopt.
func (d *Directives) Has(list []Option, required Option) bool {
	return slices.ContainsFunc(list, func(o Option) bool {
		return o.Name == required.Name || len(d.Long) > 0 && o.Name != "" && strings.HasPrefix(required.Name, o.Name)
	})
}
