package main

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"tunctl/internal/cmdline"
	"tunctl/internal/term"
)

// shows is what the program prints for a command line that must succeed.
func shows(t *testing.T, words ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := runProgram(append([]string{"tunctl"}, words...), strings.NewReader(""), &out, io.Discard); code != 0 {
		t.Fatalf("%q ends with %d", words, code)
	}
	return out.String()
}

// helpOf is what --help shows.
func helpOf(t *testing.T, words ...string) string {
	t.Helper()
	return shows(t, append(slices.Clone(words), "--help")...)
}

func testApp() *cli.App { return newApp(strings.NewReader(""), io.Discard, io.Discard) }

// eachCommand calls do with the words of every command that is shown.
func eachCommand(do func(c *cli.Command, words []string)) {
	eachOf(testApp().VisibleCommands(), nil, do)
}

// eachOf calls do with the words of every command, also of those that are not shown.
func eachOf(commands []*cli.Command, above []string, do func(c *cli.Command, words []string)) {
	for _, c := range commands {
		words := append(slices.Clone(above), c.Name)
		do(c, words)
		eachOf(c.Subcommands, words, do)
	}
}

func TestHelpWidth(t *testing.T) {
	const most = 80
	check := func(words ...string) {
		for line := range strings.SplitSeq(helpOf(t, words...), "\n") {
			if term.TextWidth(line) > most {
				t.Errorf("the help of %q has a line of %d columns:\n%s", words, term.TextWidth(line), line)
			}
			if strings.Count(line, "(default:") > 1 || strings.Contains(line, "(default: false)") {
				t.Errorf("the help of %q has a default too many:\n%s", words, line)
			}
		}
	}
	check()
	eachCommand(func(_ *cli.Command, words []string) { check(words...) })
}

// A new command does not make it longer: `tunctl help all` has them all.
func TestHelpFrontPage(t *testing.T) {
	const mostCommands, mostLines = 15, 23 // and a line for the next prompt
	for _, words := range [][]string{{}, {"help"}, {"h"}, {"-h"}, {"--help"}} {
		page := shows(t, words...)
		if n := strings.Count(page, "\n"); n > mostLines {
			t.Errorf("%q shows %d lines:\n%s", words, n, page)
		}
		_, list, _ := strings.Cut(page, "COMMANDS:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		var names []string
		for line := range strings.SplitSeq(list, "\n") {
			names = append(names, strings.Fields(line)[0])
		}
		if !slices.Equal(names, frontPageCommands) || len(names) > mostCommands {
			t.Errorf("%q shows %q", words, names)
		}
		for _, want := range []string{"\n`tunctl help all` lists every command in its chapters.\n", "--help, -h", "--version, -v", "--config FILE"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q does not show %q", words, want)
			}
		}
	}
}

func TestHelpJSONFlagLast(t *testing.T) {
	eachCommand(func(c *cli.Command, words []string) {
		flags := cmdline.VisibleFlags(c.Flags)
		if i := slices.IndexFunc(flags, func(f cli.DocGenerationFlag) bool { return f.Names()[0] == "json" }); i >= 0 && i != len(flags)-1 {
			t.Errorf("%q shows --json before other flags", words)
		}
	})
}

// A host or a session may be called so.
func TestHelpAsArgument(t *testing.T) {
	t.Setenv("TUNCTL_HOME", t.TempDir())
	for _, name := range []string{"h", "help"} {
		app := testApp()
		var got []string
		cmdline.FindCommand(app.Commands, "login").Action = func(c *cli.Context) error { got = c.Args().Slice(); return nil }
		if err := runApp(t.Context(), app, []string{"tunctl", "login", name}); err != nil || !slices.Equal(got, []string{name}) {
			t.Errorf("login %s gets %q, %v", name, got, err)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	want := shows(t, "version")
	for _, words := range [][]string{{"--version"}, {"-v"}, {"-version"}, {"--config", "x", "--version"}, {"--version", "up"}} {
		if got := shows(t, words...); got != want || !strings.HasPrefix(got, "tunctl ") {
			t.Errorf("%q prints %q, want %q", words, got, want)
		}
	}
}

func TestHelpAfterArgument(t *testing.T) {
	eachCommand(func(c *cli.Command, words []string) {
		if len(c.Subcommands) > 0 || c.HasName(cmdline.SSHCommand) {
			return
		}
		if got, want := helpOf(t, append(slices.Clone(words), "jupyter")...), helpOf(t, words...); got != want {
			t.Errorf("the help of %q after an argument is\n%s", words, got)
		}
	})
}

func TestHelpExamples(t *testing.T) {
	columns := regexp.MustCompile(`\S {2,}\S|^ {2}`)
	for _, c := range testApp().Commands {
		example := func(line string) bool {
			return columns.MatchString(line) && strings.Contains(line, "tunctl "+c.Name)
		}
		if c.ArgsUsage != "" && !c.Hidden && !slices.ContainsFunc(strings.Split(c.Description, "\n"), example) {
			t.Errorf("tunctl %s --help has no example", c.Name)
		}
	}
}

func TestHelpChapters(t *testing.T) {
	var chapters []string
	for _, c := range testApp().Commands {
		if c.Hidden != (c.Category == "") {
			t.Errorf("%q: hidden is %v, its chapter %q", c.Name, c.Hidden, c.Category)
		}
		if !c.Hidden {
			chapters = append(chapters, c.Category)
		}
	}
	if once := slices.Compact(chapters); len(once) != len(slices.Compact(slices.Sorted(slices.Values(once)))) {
		t.Errorf("a chapter begins twice: %q", once)
	}
}

func TestHelpTexts(t *testing.T) {
	files, err := helpTexts.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	all := testApp().Commands
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".txt")
		if c := cmdline.FindCommand(all, name); c == nil || c.Description == "" {
			t.Errorf("help/%s is the text of no command", f.Name())
		}
	}
}
