package main

import (
	"embed"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/editor"
	"tunctl/internal/term"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script for a shell",
		ArgsUsage: "bash|zsh|fish|powershell",
		Description: `Packages and ''make install'' install the scripts. Otherwise add the line of your shell to its startup
			file:

			bash:        source <(tunctl completion bash)
			zsh:         source <(tunctl completion zsh)
			fish:        tunctl completion fish | source
			powershell:  tunctl completion powershell | Out-String | Invoke-Expression`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("completion takes one shell: bash, zsh, fish or powershell")
			}
			text, err := fs.ReadFile(completionScripts, "completion/"+strings.ToLower(c.Args().First()))
			if err != nil {
				return usagef("no completion for %q: the shell must be bash, zsh, fish or powershell", c.Args().First())
			}
			_, err = t.Out.Write(text)
			return err
		},
	}
}

// completionWord, as the last word of a command line and with =WORD, the word at the cursor,
// requests completion. The words before it are only read: no command runs, whatever they are.
const completionWord = "--generate-bash-completion"

// filesToo, as the last line of the output, makes the shell offer local file names too.
const filesToo = ":files"

// candidate is a word that may follow, with a short description.
type candidate struct{ word, about string }

// candidates are the words that may follow.
type candidates struct {
	list  []candidate
	files bool // and local file names
}

func (o *candidates) add(word, about string) { o.list = append(o.list, candidate{word, about}) }

// complete prints the candidates that begin with the word at the cursor, one per line.
func (at position) complete(w io.Writer) error {
	o := at.candidates()
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
	if o.files {
		b.WriteString(filesToo + "\n")
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

// position is where somebody pressed TAB on a command line.
type position struct {
	level   level
	usage   string   // of the command's arguments
	given   []string // its flags so far
	args    []string // its arguments so far
	value   cli.Flag // the flag whose value comes next
	ended   bool     // only arguments follow: there was a --
	config  string   // the config file that the line names
	current string   // the word at the cursor, up to there
}

// parsePartialLine reads a command line that ends in the completion word.
func parsePartialLine(app *cli.App, argv []string) (at position, ok bool) {
	if len(argv) < 2 {
		return at, false
	}
	last, current, _ := strings.Cut(argv[len(argv)-1], "=")
	at = position{level: rootLevel(app), current: current}
	for _, word := range argv[1 : len(argv)-1] {
		at.read(word)
	}
	return at, last == completionWord
}

// read advances over the next word of the line.
func (at *position) read(word string) {
	isFlag := len(word) > 1 && word[0] == '-' && !at.ended
	switch command := findCommand(at.level.commands, word); {
	case at.value != nil:
		at.setFlag(at.value, word)
		at.value = nil
	case isFlag && word == "--":
		at.ended = true
	case isFlag:
		f := findFlag(at.level.flags, word)
		if f == nil {
			return
		}
		at.given = append(at.given, f.Names()...)
		if takesValue(at.level.flags, word) {
			at.value = f
		} else if _, value, ok := strings.Cut(word, "="); ok {
			at.setFlag(f, value)
		}
	case command != nil && len(at.args) == 0:
		*at = position{level: at.level.below(command), usage: command.ArgsUsage, config: at.config, current: at.current}
	default:
		at.args = append(at.args, word)
		at.ended = at.ended || at.level.passes
	}
}

// setFlag remembers a flag's value if the candidates depend on it.
func (at *position) setFlag(f cli.Flag, value string) {
	if at.level.isRoot() && f.Names()[0] == "config" {
		at.config = value
	}
}

func (at position) candidates() candidates {
	switch {
	case at.value != nil:
		return at.values(valueKind(at.value), at.current)
	case !at.ended && strings.HasPrefix(at.current, "-"):
		return at.flags()
	case len(at.level.commands) > 0 && len(at.args) == 0:
		return commandCandidates(at.level.commands)
	case len(at.level.commands) > 0, at.level.passes && len(at.args) > 0:
		return candidates{}
	}
	return at.values(argumentKind(at.usage, len(at.args)), at.current)
}

func commandCandidates(commands []*cli.Command) candidates {
	var o candidates
	for _, c := range commands {
		if !c.Hidden {
			o.add(c.Name, c.Usage)
		}
	}
	return o
}

// flags are the flags that are not given yet, or the values of --flag=.
func (at position) flags() candidates {
	if name, value, ok := strings.Cut(at.current, "="); ok {
		f := findFlag(at.level.flags, name)
		if f == nil {
			return candidates{}
		}
		o := at.values(valueKind(f), value)
		for i := range o.list {
			o.list[i].word = name + "=" + o.list[i].word
		}
		return o
	}
	var o candidates
	for _, f := range visibleFlags(at.level.flags) {
		name := f.Names()[0]
		if _, repeats := f.(repeatedFlag); repeats || !slices.Contains(at.given, name) {
			_, usage := splitUsage(f)
			o.add(dashed(name), usage)
		}
	}
	o.add("--help", "show help")
	return o
}

// dashed is a flag as it is typed.
func dashed(name string) string {
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
	placeholder, _ := splitUsage(d)
	return []string{placeholder}
}

// argumentKind is what the argument at index is, as help describes the command's
// arguments: of "[SESSION | HOST JOB]" the first is a session or a host.
func argumentKind(usage string, index int) []string {
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
func (at position) values(kinds []string, typed string) candidates {
	src, err := newCandidateSource(at.config)
	if err != nil {
		return candidates{}
	}
	defer src.close()
	var o candidates
	for _, kind := range kinds {
		switch kind {
		case "SESSION":
			src.sessions(&o, "")
		case "HOST":
			src.hosts(&o, "")
		case "JOB":
			src.jobs(&o, at.args)
		case "ENDPOINT":
			src.endpoints(&o, at.args)
		case "SITE":
			src.sites(&o)
		case "NAME=VALUE":
			src.choices(&o, at, typed)
		case "SRC", "DST":
			src.locations(&o, typed)
		case "EDITOR":
			for _, e := range editor.All {
				o.add(e.Command, e.Title)
			}
		case "FILE", "DIR":
			o.files = true
		case "COMMAND":
			o.list = append(o.list, commandCandidates(at.level.app.Commands).list...)
		default:
			if literal.MatchString(kind) {
				o.add(kind, "")
			}
		}
	}
	o.list = slices.DeleteFunc(o.list, func(x candidate) bool { return slices.Contains(at.args, x.word) })
	return o
}
