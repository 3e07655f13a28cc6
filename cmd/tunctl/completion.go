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
	"tunctl/internal/term"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script for a shell",
		ArgsUsage: "bash|zsh|fish|powershell",
		Description: "Packages and `make install` install the scripts. Otherwise add the line of your shell to its\n" +
			"startup file:\n\n" +
			"bash:        source <(tunctl completion bash)\n" +
			"zsh:         source <(tunctl completion zsh)\n" +
			"fish:        tunctl completion fish | source\n" +
			"powershell:  tunctl completion powershell | Out-String | Invoke-Expression",
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

// completionWord, as the last word of a command line, asks what may follow. What stands
// before it is only read: whatever it is, no command runs.
//
// The scripts of `tunctl completion` add =WORD, the word at the cursor, and are told
// descriptions and whether file names may follow. Those of earlier versions, which a
// shell may have loaded for weeks, add nothing and give a word at the cursor only where
// that is a flag: they are told the bare words.
const completionWord = "--generate-bash-completion"

// filesToo, as the last line of an answer, has the shell offer local file names too.
const filesToo = ":files"

// unfinished is a command line on which somebody pressed TAB.
type unfinished struct {
	app     *cli.App
	words   []string // before the cursor, without the program's name
	current string   // the word at the cursor, up to there
	plain   bool     // bare words are asked for
}

// unfinishedLine reads a command line that ends in the completion word.
func unfinishedLine(app *cli.App, argv []string) (line unfinished, ok bool) {
	if len(argv) < 2 {
		return line, false
	}
	words := argv[1 : len(argv)-1]
	ask, current, given := strings.Cut(argv[len(argv)-1], "=")
	if ask != completionWord {
		return line, false
	}
	if last := len(words) - 1; !given && last >= 0 && strings.HasPrefix(words[last], "-") {
		words, current = words[:last], words[last]
	}
	return unfinished{app: app, words: words, current: current, plain: !given}, true
}

// offer is a word that may follow, with a few words about it.
type offer struct{ word, about string }

// offers are the words that may follow.
type offers struct {
	list  []offer
	files bool // and local file names
}

func (o *offers) add(word, about string) { o.list = append(o.list, offer{word, about}) }

// answer prints the offers that begin with the word at the cursor, one a line.
func (u unfinished) answer(w io.Writer) error {
	o := u.offers()
	var b strings.Builder
	seen := map[string]bool{}
	for _, x := range o.list {
		if !strings.HasPrefix(x.word, u.current) || seen[x.word] || !isOneLine(x.word) {
			continue
		}
		seen[x.word] = true
		b.WriteString(x.word)
		if about := api.NewRemoteText(x.about).FirstLine(aboutWidth); !u.plain && !about.IsZero() {
			b.WriteString("\t" + about.String())
		}
		b.WriteByte('\n')
	}
	if o.files && !u.plain {
		b.WriteString(filesToo + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// aboutWidth is how much of a description a shell is told.
const aboutWidth = 72

// isOneLine reports whether a word, such as the name of a file on a host, is one that a
// shell can be told in a line and that does not steer a terminal.
func isOneLine(word string) bool {
	return word == api.Sanitize(word) && !strings.ContainsFunc(word, unicode.IsControl)
}

// position is where on a command line the cursor is.
type position struct {
	level  level
	usage  string   // of the command's arguments
	given  []string // its flags so far
	args   []string // its arguments so far
	value  cli.Flag // the flag whose value comes next
	ended  bool     // only arguments follow: there was a --
	config string   // the config file that the line names
}

func (u unfinished) position() position {
	at := position{level: level{app: u.app, name: u.app.Name, flags: u.app.Flags, commands: u.app.Commands}}
	for _, word := range u.words {
		at.read(word)
	}
	return at
}

// read takes the next word of the line.
func (at *position) read(word string) {
	isFlag := len(word) > 1 && word[0] == '-' && !at.ended
	switch command := find(at.level.commands, word); {
	case at.value != nil:
		at.keep(at.value, word)
		at.value = nil
	case isFlag && word == "--":
		at.ended = true
	case isFlag:
		at.flag(word)
	case command != nil && len(at.args) == 0:
		*at = position{level: at.level.below(command), usage: command.ArgsUsage, config: at.config}
	default:
		at.args = append(at.args, word)
		at.ended = at.ended || at.level.passes
	}
}

func (at *position) flag(word string) {
	f := lookUp(at.level.flags, word)
	if f == nil {
		return
	}
	at.given = append(at.given, f.Names()...)
	if takesValue(at.level.flags, word) {
		at.value = f
	} else if _, value, ok := strings.Cut(word, "="); ok {
		at.keep(f, value)
	}
}

// keep remembers a flag's value where the offers depend on it.
func (at *position) keep(f cli.Flag, value string) {
	if at.level.isRoot() && f.Names()[0] == "config" {
		at.config = value
	}
}

func (u unfinished) offers() offers {
	at := u.position()
	switch {
	case at.value != nil:
		return u.values(at, valueKind(at.value), u.current)
	case !at.ended && strings.HasPrefix(u.current, "-"):
		return u.flags(at)
	case len(at.level.commands) > 0 && (len(at.args) == 0 || u.plain):
		return commandOffers(at.level.commands)
	case len(at.level.commands) > 0, at.level.passes && len(at.args) > 0:
		return offers{}
	}
	return u.values(at, argumentKind(at.usage, len(at.args)), u.current)
}

func commandOffers(commands []*cli.Command) offers {
	var o offers
	for _, c := range commands {
		if !c.Hidden {
			o.add(c.Name, c.Usage)
		}
	}
	return o
}

// flags offers the flags that are not given yet, or the values of --flag=.
func (u unfinished) flags(at position) offers {
	if name, value, ok := strings.Cut(u.current, "="); ok {
		f := lookUp(at.level.flags, name)
		if f == nil {
			return offers{}
		}
		o := u.values(at, valueKind(f), value)
		for i := range o.list {
			o.list[i].word = name + "=" + o.list[i].word
		}
		return o
	}
	var o offers
	for _, f := range visible(at.level.flags) {
		names := f.Names()
		_, repeats := f.(*cli.StringSliceFlag)
		if slices.Contains(at.given, names[0]) && !repeats {
			continue
		}
		_, usage := unquoteUsage(f)
		o.add(dashed(names[0]), usage)
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
	placeholder, _ := unquoteUsage(d)
	return []string{placeholder}
}

// argumentKind is what the argument at index is, by the words that help shows for a
// command's arguments: of "[SESSION | HOST JOB]" the first is a session or a host.
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

// literal is a word that is typed as help shows it.
var literal = regexp.MustCompile(`^[a-z]+$`)

// values offers what is of one of the kinds, and not on the line yet.
func (u unfinished) values(at position, kinds []string, typed string) offers {
	k, err := newKnowledge(at.config)
	if err != nil {
		return offers{}
	}
	defer k.close()
	var o offers
	for _, kind := range kinds {
		switch kind {
		case "SESSION":
			k.sessions(&o, "")
		case "HOST":
			k.hosts(&o, "")
		case "JOB":
			k.jobs(&o, at.args)
		case "SITE":
			k.sites(&o)
		case "SRC", "DST":
			k.places(&o, typed)
		case "FILE", "DIR":
			o.files = true
		case "COMMAND":
			o.list = append(o.list, commandOffers(u.app.Commands).list...)
		default:
			if literal.MatchString(kind) {
				o.add(kind, "")
			}
		}
	}
	o.list = slices.DeleteFunc(o.list, func(x offer) bool { return slices.Contains(at.args, x.word) })
	return o
}
