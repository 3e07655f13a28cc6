package cmdline

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
)

// CompletionWord requests completion, as the last word of a command line and with =WORD, the
// word at the cursor. The words before it are only read: no command runs, whatever they are.
const CompletionWord = "--generate-bash-completion"

// FilesToo makes the shell offer local file names too, as the last line of the output.
const FilesToo = ":files"

// candidate is a word that may follow, with a short description.
type candidate struct{ word, about string }

// Candidates are the words that may follow.
type Candidates struct {
	list  []candidate
	Files bool // and local file names
}

// Add adds a word.
func (o *Candidates) Add(word, about string) { o.list = append(o.list, candidate{word, about}) }

// Complete prints the candidates that begin with the word at the cursor, one per line.
func (at Position) Complete(w io.Writer, words Words) error {
	o := at.candidates(words)
	var b strings.Builder
	seen := map[string]bool{}
	for _, x := range o.list {
		if !strings.HasPrefix(x.word, at.current) || seen[x.word] || !isOneLine(x.word) {
			continue
		}
		seen[x.word] = true
		b.WriteString(x.word)
		if about := api.NewRemoteText(x.about).FirstLine(aboutWidth); !about.IsZero() {
			b.WriteString("\t" + about.String())
		}
		b.WriteByte('\n')
	}
	if o.Files {
		b.WriteString(FilesToo + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// aboutWidth is how much of a description a shell gets.
const aboutWidth = 72

// isOneLine reports whether a word, such as the name of a file on a host, fits in a line and
// has no control characters.
func isOneLine(word string) bool {
	return word == api.Sanitize(word) && !strings.ContainsFunc(word, unicode.IsControl)
}

// Position is where somebody pressed TAB on a command line.
type Position struct {
	level   level
	given   []string // its flags so far
	Args    []string // its arguments so far
	value   cli.Flag // the flag whose value comes next
	ended   bool     // only arguments follow: there was a --
	Config  string   // the config file that the line names
	current string   // the word at the cursor, up to there
}

// ParsePartial reads a command line that ends in the completion word.
func ParsePartial(app *cli.App, argv []string) (at Position, ok bool) {
	if len(argv) < 2 {
		return at, false
	}
	last, current, _ := strings.Cut(argv[len(argv)-1], "=")
	at = Position{level: rootLevel(app), current: current}
	for _, word := range argv[1 : len(argv)-1] {
		at.read(word)
	}
	return at, last == CompletionWord
}

// read advances over the next word of the line.
func (at *Position) read(word string) {
	isFlag := len(word) > 1 && word[0] == '-' && !at.ended
	switch command := FindCommand(at.level.Subcommands, word); {
	case at.value != nil:
		at.setFlag(at.value, word)
		at.value = nil
	case isFlag && word == "--":
		at.ended = true
	case isFlag:
		f := findFlag(at.level.Flags, word)
		if f == nil {
			return
		}
		at.given = append(at.given, f.Names()...)
		if TakesValue(at.level.Flags, word) {
			at.value = f
		} else if _, value, ok := strings.Cut(word, "="); ok {
			at.setFlag(f, value)
		}
	case command != nil && len(at.Args) == 0:
		*at = Position{level: at.level.below(command), Config: at.Config, current: at.current}
	default:
		at.Args = append(at.Args, word)
		at.ended = at.ended || at.level.passes()
	}
}

// setFlag remembers a flag's value if the candidates depend on it.
func (at *Position) setFlag(f cli.Flag, value string) {
	if at.level.isRoot() && f.Names()[0] == "config" {
		at.Config = value
	}
}

func (at Position) candidates(words Words) Candidates {
	switch {
	case at.value != nil:
		return at.values(valueKind(at.value), at.current, words)
	case !at.ended && strings.HasPrefix(at.current, "-"):
		return at.flags(words)
	case len(at.level.Subcommands) > 0 && len(at.Args) == 0:
		return commandCandidates(at.level.Subcommands)
	case len(at.level.Subcommands) > 0, at.level.passes() && len(at.Args) > 0:
		return Candidates{}
	}
	return at.values(ArgumentKinds(at.level.ArgsUsage, len(at.Args)), at.current, words)
}

func commandCandidates(commands []*cli.Command) Candidates {
	var o Candidates
	for _, c := range commands {
		if !c.Hidden {
			o.Add(c.Name, c.Usage)
		}
	}
	return o
}

// flags are the flags that are not given yet, or the values of --flag=.
func (at Position) flags(words Words) Candidates {
	if name, value, ok := strings.Cut(at.current, "="); ok {
		f := findFlag(at.level.Flags, name)
		if f == nil {
			return Candidates{}
		}
		o := at.values(valueKind(f), value, words)
		for i := range o.list {
			o.list[i].word = name + "=" + o.list[i].word
		}
		return o
	}
	var o Candidates
	for _, f := range VisibleFlags(at.level.Flags) {
		name := f.Names()[0]
		if _, repeats := f.(RepeatedFlag); repeats || !slices.Contains(at.given, name) {
			_, usage := SplitUsage(f)
			o.Add(Dashed(name), usage)
		}
	}
	o.Add("--help", "show help")
	return o
}

// Dashed is a flag as it is typed.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// valueKind is what a flag's value is: the placeholder in its usage.
func valueKind(f cli.Flag) []string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok || !d.TakesValue() {
		return nil
	}
	placeholder, _ := SplitUsage(d)
	return []string{placeholder}
}

// ArgumentKinds is what the argument at index is, as help describes the command's
// arguments: of "[SESSION | HOST JOB]" the first is a session or a host.
func ArgumentKinds(usage string, index int) []string {
	var kinds []string
	for alternative := range strings.SplitSeq(strings.Trim(usage, "[]"), " | ") {
		words := strings.Fields(alternative)
		if i := slices.Index(words, "[--"); i >= 0 {
			words = words[:i] // what follows is another program's
		}
		words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "--") })
		for i, w := range words {
			repeats := i < index && slices.ContainsFunc(words[:i+1], func(w string) bool { return strings.Contains(w, "...") })
			if i == index || repeats {
				kinds = append(kinds, strings.Split(strings.Trim(w, "[].…"), "|")...)
			}
		}
	}
	return kinds
}

// literal matches a word that is typed as help shows it.
var literal = regexp.MustCompile(`^[a-z]+$`)

// values are the words of one of the kinds that are not on the line yet.
func (at Position) values(kinds []string, typed string, words Words) Candidates {
	var o Candidates
	for _, kind := range kinds {
		switch {
		case kind == "FILE" || kind == "DIR":
			o.Files = true
		case kind == "COMMAND":
			o.list = append(o.list, commandCandidates(at.level.app.Commands).list...)
		case literal.MatchString(kind):
			o.Add(kind, "")
		default:
			words(&o, kind, typed, at)
		}
	}
	o.list = slices.DeleteFunc(o.list, func(x candidate) bool { return slices.Contains(at.Args, x.word) })
	return o
}

// Words adds the words of a kind, such as SESSION, that may follow at a position. Of the last one,
// a part is typed.
type Words func(to *Candidates, kind, typed string, at Position)
