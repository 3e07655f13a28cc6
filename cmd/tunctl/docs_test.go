package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/cmdline"
)

// repository is the top of the source.
const repository = "../.."

// pages are the documents that people read, by their paths from the top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(repository, path); strings.HasSuffix(path, ".md") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		all[name] = source(t, name)
	}
	return all
}

// source is the text of a file of the repository.
func source(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.Join(path...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachMatch calls do with every match in the pages, and with the page's name.
func eachMatch(t *testing.T, pattern string, do func(page string, match []string)) {
	t.Helper()
	find := regexp.MustCompile(pattern)
	for name, page := range pages(t) {
		for _, m := range find.FindAllStringSubmatch(page, -1) {
			do(name, m)
		}
	}
}

// block is a fenced piece of a page.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w*)[^\\n]*\\n(.*?)^```$")

func blocks(page string) []block {
	var list []block
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		list = append(list, block{m[1], m[2]})
	}
	return list
}

// inlineCode is a piece of code within a line; it may be wrapped.
var inlineCode = regexp.MustCompile("`([^`]+)`")

// shownLines are the command lines of a page, as the user would copy them: of blocks
// of shell, after the $ of a console, and those of tunctl within the text.
func shownLines(page string) []string {
	var lines []string
	add := func(line string) {
		line, _, _ = strings.Cut(line, " #")
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	for _, b := range blocks(page) {
		for line := range strings.Lines(b.text) {
			prompted, isPrompted := strings.CutPrefix(line, "$ ")
			switch {
			case b.language == "console" && isPrompted:
				add(prompted)
			case b.language == "sh":
				add(line)
			}
		}
	}
	for _, m := range inlineCode.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		code := strings.Join(strings.Fields(m[1]), " ")
		if strings.HasPrefix(code, "tunctl ") && !strings.Contains(code, ": ") { // that is a message
			add(code)
		}
	}
	return lines
}

// shownCommands are the words after tunctl in the lines that run it.
func shownCommands(page string) []string {
	var commands []string
	for _, line := range shownLines(page) {
		if at := regexp.MustCompile(`(?:^|[(|;&] *|bin/)tunctl( |$)`).FindStringIndex(line); at != nil {
			_, rest, _ := strings.Cut(line[at[0]:], "tunctl")
			commands = append(commands, strings.TrimSpace(rest))
		}
	}
	return commands
}

// TestDocsCommandBlocks is for the tests of commands, which would not find it otherwise.
func TestDocsCommandBlocks(t *testing.T) {
	command := regexp.MustCompile(`(?m)^(\$ )?(tunctl|ssh|make) `)
	for name, page := range pages(t) {
		for _, b := range blocks(page) {
			if b.language == "" && command.MatchString(b.text) {
				t.Errorf("%s: a block of commands without sh or console:\n%s", name, b.text)
			}
		}
	}
}

func TestDocsCommands(t *testing.T) {
	app := testApp()
	seen := 0
	for name, page := range pages(t) {
		for _, command := range shownCommands(page) {
			seen++
			if err := understood(app, strings.Fields(command)); err != nil {
				t.Errorf("%s: `tunctl %s`: %v", name, command, err)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d commands were found: the pages are not read right", seen)
	}
}

// placeholder is a word that stands for others.
var placeholder = regexp.MustCompile(`^\[?[A-Z]+\]?$|^…$`)

// understood follows a command's words through the definitions.
func understood(app *cli.App, words []string) error {
	commands, flags := app.Commands, app.Flags
	wants := "" // the flag whose value comes next
	for _, word := range words {
		word = strings.Trim(word, "[]'\",;.)")
		switch {
		case wants != "":
			if err := setFlag(flags, wants, word); err != nil {
				return err
			}
			wants = ""
		case word == "" || word == "--" || strings.ContainsAny(word, "|>&") && !strings.Contains(word, `\|`) && commands == nil:
			return nil
		case strings.HasPrefix(word, "-") && len(word) > 1:
			if !known(flags, word) {
				return fmt.Errorf("no flag %s", word)
			}
			if cmdline.TakesValue(flags, word) {
				wants = word
			}
		case placeholder.MatchString(word):
			commands = nil
		case word == "help" && len(commands) == len(app.Commands):
			return nil
		case commands != nil:
			next := cli.Command{}
			for one := range strings.SplitSeq(strings.ReplaceAll(word, `\|`, "|"), "|") {
				c := cmdline.FindCommand(commands, one)
				if c == nil {
					return fmt.Errorf("no command %q", one)
				}
				next.Flags = append(next.Flags, c.Flags...)
				next.Subcommands = append(next.Subcommands, c.Subcommands...)
				if c.HasName(cmdline.SSHCommand) {
					return nil // the rest is the remote's
				}
			}
			flags, commands = append(slices.Clone(app.Flags), next.Flags...), next.Subcommands
			if len(commands) == 0 {
				commands = nil
			}
		}
	}
	return nil
}

func known(flags []cli.Flag, word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name == "help" || name == "h" || slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// setFlag sets a flag to a value, as the command line would.
func setFlag(flags []cli.Flag, word, value string) error {
	if placeholder.MatchString(value) {
		return nil
	}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return err
		}
	}
	return set.Set(strings.TrimLeft(word, "-"), value)
}

// TestDocsDependencies holds for those that go.mod calls direct.
func TestDocsDependencies(t *testing.T) {
	var required, explained []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+ v\S+)$`).FindAllStringSubmatch(source(t, "go.mod"), -1) {
		required = append(required, m[1])
	}
	_, table, _ := strings.Cut(pages(t)["CONTRIBUTING.md"], "## Dependencies")
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]*/[^|]*) \| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(table, -1) {
		releases := regexp.MustCompile(`(v\S+) 20\d\d-\d\d`).FindAllStringSubmatch(m[2], -1)
		for i, module := range strings.Split(m[1], ", ") {
			explained = append(explained, module+" "+releases[i][1])
		}
	}
	slices.Sort(required)
	slices.Sort(explained)
	if !slices.Equal(required, explained) {
		t.Errorf("go.mod requires\n%q\nCONTRIBUTING.md explains\n%q", required, explained)
	}
}

func TestDocsMakeTargets(t *testing.T) {
	makefile := source(t, "Makefile")
	eachMatch(t, "(?m)(?:^|`)make ([a-z][a-z-]*)", func(page string, m []string) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).MatchString(makefile) {
			t.Errorf("%s: there is no `make %s`", page, m[1])
		}
	})
}

func TestDocsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for name, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
			if _, err := os.Stat(filepath.Join(repository, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestDocsPictures finds one that nobody shows, and
// one that would grow old since no test that `make screenshots` runs makes it.
func TestDocsPictures(t *testing.T) {
	_, recipe, _ := strings.Cut(source(t, "Makefile"), "\nscreenshots:")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	sources, err := filepath.Glob(filepath.Join(repository, "*", "*", "screenshots*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		folder, err := filepath.Rel(repository, filepath.Dir(path))
		if err != nil || !strings.Contains(recipe, " ./"+filepath.ToSlash(folder)) {
			t.Errorf("`make screenshots` does not run %s, %v", path, err)
		}
		for _, m := range regexp.MustCompile(`"([\w-]+\.(?:png|svg))"`).FindAllSubmatch(text, -1) {
			made[string(m[1])] = true
		}
	}
	pictures, err := os.ReadDir(filepath.Join(repository, "docs", "images"))
	if err != nil {
		t.Fatal(err)
	}
	for _, picture := range pictures {
		if !made[picture.Name()] {
			t.Errorf("no test makes %s", picture.Name())
		}
		shown := false
		for _, page := range pages(t) {
			shown = shown || strings.Contains(page, "images/"+picture.Name()+")")
		}
		if !shown {
			t.Errorf("no page shows %s", picture.Name())
		}
	}
}

func TestDocsConfigs(t *testing.T) {
	for name, page := range pages(t) {
		for _, b := range blocks(page) {
			if b.language != "toml" || !strings.Contains(b.text, "[session.") && !strings.Contains(b.text, "[host.") {
				continue
			}
			if _, err := configs.Parse(name, []byte(b.text)); err != nil {
				t.Errorf("%s:\n%v", name, err)
			}
		}
	}
}

// TestDocsTestNames finds a line of the model that no test checks any
// more.
func TestDocsTestNames(t *testing.T) {
	there, subtests := map[string]bool{}, &strings.Builder{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(repository, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		subtests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eachMatch(t, "`((?:Test|Fuzz)[A-Z]\\w+)(?:/([^`]+))?`", func(page string, m []string) {
		if !there[m[1]] || m[2] != "" && !strings.Contains(subtests.String(), `"`+m[2]+`"`) {
			t.Errorf("%s names %s, which is no test", page, m[0])
		}
	})
}

// TestDocsThreatModel reads the rows of its tables.
func TestDocsThreatModel(t *testing.T) {
	_, model, _ := strings.Cut(pages(t)[filepath.Join("docs", "security.md")], "## Threat model")
	rows := 0
	for line := range strings.Lines(model) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if !strings.HasPrefix(line, "|") || strings.Trim(cells[0], " -") == "" || strings.TrimSpace(cells[len(cells)-1]) == "held by" {
			continue
		}
		rows++
		if held := cells[len(cells)-1]; !strings.Contains(held, "`Test") && !strings.Contains(held, "`Fuzz") {
			t.Errorf("nothing holds:%s", cells[0])
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows were found", rows)
	}
}

// TestDocsErrorCodes compares the page's table with
// the codes of the API and what this program makes of them.
func TestDocsErrorCodes(t *testing.T) {
	var codes, rows []string
	for _, m := range regexp.MustCompile(`Code += "(\S+)"`).FindAllStringSubmatch(source(t, "internal", "api", "error.go"), -1) {
		codes = append(codes, fmt.Sprintf("%s %d", m[1], exitCode(&api.Error{Code: api.Code(m[1])})))
	}
	_, table, _ := strings.Cut(pages(t)[filepath.Join("docs", "troubleshooting.md")], "## Error codes")
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\| .* \\| (\\d+) \\|$").FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1]+" "+m[2])
	}
	if len(codes) == 0 || !slices.Equal(codes, rows) {
		t.Errorf("the codes are\n%q\nthe page has\n%q", codes, rows)
	}
}

func TestDocsLimits(t *testing.T) {
	limit := regexp.MustCompile(`(\d+(?:\.\d)?)( s| min| h)?<!-- (\S+) -->`) // readers see no name
	found := limit.FindAllStringSubmatch(pages(t)[filepath.Join("docs", "cluster.md")], -1)
	if len(found) < 15 {
		t.Fatalf("only %d limits were found", len(found))
	}
	units := map[string]time.Duration{" s": time.Second, " min": time.Minute, " h": time.Hour, "": 1}
	for _, m := range found {
		value := reflect.ValueOf(session.DefaultLimits())
		for field := range strings.SplitSeq(m[3], ".") {
			if value = value.FieldByName(field); !value.IsValid() {
				t.Fatalf("there is no limit %s", m[3])
			}
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if _, isTime := value.Interface().(time.Duration); err != nil || isTime != (m[2] != "") || value.Int() != int64(n*float64(units[m[2]])) {
			t.Errorf("%s is %v, not %s%s", m[3], value, m[1], m[2])
		}
	}
}
