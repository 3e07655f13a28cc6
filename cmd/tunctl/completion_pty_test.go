//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/cmdline"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

// shellUser is the user with a shell, a cluster and a connected agent.
type shellUser struct {
	*sandbox
	dir string // their current folder
	job string // their running job
}

func newShellUser(t *testing.T) *shellUser {
	t.Helper()
	c := startPractice(t, lab.Options{QueueFor: -1})
	s := personAt(t, c)
	s.env = append(s.env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "NO_COLOR=1", "TUNCTL_CONFIG=")
	u := &shellUser{sandbox: s, dir: filepath.Join(s.home, "work")}
	writeFiles(t, u.dir, map[string]string{"local data.csv": "1\n", "local.log": "\n"})
	s.setConfig("[session.jupyter]\nhost = \"practice\"\nsubmit = \"~/train.sh\"\n")
	writeFiles(t, c.Home(), map[string]string{
		"train.sh": "#!/bin/sh\nexec sleep 600\n", "results/a b.csv": "1\n", "results/$(touch here)": "1\n", ".hidden": "1\n",
	})
	if err := os.Symlink("results", filepath.Join(c.Home(), "scratch")); err != nil {
		t.Fatal(err)
	}
	u.job = strings.TrimSpace(u.run("submit", "practice", "~/train.sh"))
	wait.Until(t, "the job runs", func() bool { return c.Jobs()[0].State == "RUNNING" })
	u.run("jobs", "practice") // the agent remembers the scheduler's last answer
	return u
}

// tabShell is a shell in which TAB can be pressed.
type tabShell interface {
	// press types a line and presses TAB. The shell then shows the words of the line.
	press(line string) (words string)
}

// startShell starts a real shell with tunctl's completion, set up as in the README.
func (u *shellUser) startShell(t *testing.T, name string) tabShell {
	t.Helper()
	testprogram.Need(t, name)
	command, setup := map[string][]string{"bash": {"--norc", "--noprofile", "-i"}, "zsh": {"-f", "-i"}}[name], ""
	switch name {
	case "fish":
		return u.startFish(t)
	case "zsh":
		setup = "bindkey -e; autoload -U compinit; compinit -u -D; "
	}
	cmd := exec.Command(name, command...)
	cmd.Env, cmd.Dir = u.env, u.dir
	k := ptytest.Start(t, cmd)
	k.Answer("show() { printf 'the words are '; printf '<%s>' \"$@\"; echo; }")
	k.Answer("PS2=$'the words are " + unfinished + "\\n'")
	k.Answer(setup + "source <(tunctl completion " + name + "); show ready")
	k.Expect("the words are <ready>\r\n")
	return typedShell{t, k}
}

// unfinished are the words of a line whose quotes are still open, as the shell shows them.
const unfinished = "unfinished"

// typedShell is a shell in a terminal.
type typedShell struct {
	t    *testing.T
	talk *ptytest.Program
}

func (s typedShell) press(line string) string {
	s.t.Helper()
	s.talk.Type(line + "\t")
	s.talk.Type("\x01show \n") // to the beginning of the line: its words are shown, not run
	words := s.talk.Between("the words are ", "\r\n")
	if words == unfinished { // no completion closed the quotes
		s.talk.Answer(line[strings.LastIndexAny(line, `"'`):][:1] + " end")
		s.talk.Expect("<end>\r\n")
	}
	return words
}

const endOfOffers = "these are all"

// fishShell queries a running fish with `complete -C`, as fish's own tests do.
type fishShell struct {
	t     *testing.T
	lines io.Writer
	says  *bufio.Reader
}

func (u *shellUser) startFish(t *testing.T) fishShell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "-c",
		"tunctl completion fish | source; while read -lL line; complete -C $line; echo "+endOfOffers+"; end")
	cmd.Env, cmd.Dir = u.env, u.dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // the end of the test ends it
	})
	return fishShell{t, in, bufio.NewReader(out)}
}

func (s fishShell) press(line string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.lines, line+"\n"); err != nil {
		s.t.Fatalf("fish: %v", err)
	}
	var offers []string
	for {
		offer, err := s.says.ReadString('\n')
		if err != nil {
			s.t.Fatalf("fish: %v", err)
		}
		if offer = strings.TrimSuffix(offer, "\n"); offer == endOfOffers {
			break
		}
		offers = append(offers, offer)
	}
	words := strings.Fields(line)
	if strings.HasSuffix(line, " ") {
		words = append(words, "")
	}
	if len(offers) == 1 {
		words[len(words)-1], _, _ = strings.Cut(offers[0], "\t")
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return "<" + strings.Join(words, "><") + ">"
}

var shells = []string{"bash", "zsh", "fish"}

func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	u := newShellUser(t)
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			s := u.startShell(t, name)
			for line, want := range map[string]string{
				"tunctl exte":                     "<tunctl><extend>",
				"tunctl config che":               "<tunctl><config><check>",
				"tunctl up ju":                    "<tunctl><up><jupyter>",
				"tunctl up --no-o":                "<tunctl><up><--no-open>",
				"tunctl up jupyter --js":          "<tunctl><up><jupyter><--json>",
				"tunctl up -- ju":                 "<tunctl><up><--><jupyter>",
				"tunctl login pra":                "<tunctl><login><practice>",
				"tunctl cancel practice ":         "<tunctl><cancel><practice><" + u.job + ">",
				"tunctl attach practice ":         "<tunctl><attach><practice><" + u.job + ">",
				"tunctl forward practice ":        "<tunctl><forward><practice>",
				"tunctl ssh practice ":            "<tunctl><ssh><practice>",
				"tunctl submit practice x -- loc": "<tunctl><submit><practice><x><--><loc>",
				"tunctl detect local.":            "<tunctl><detect><local.log>",
				"tunctl cp local.":                "<tunctl><cp><local.log>",
				"tunctl cp prac":                  "<tunctl><cp><practice:>",
				"tunctl cp practice:tra":          "<tunctl><cp><practice:train.sh>",
				"tunctl cp practice:scr":          "<tunctl><cp><practice:scratch/>",
				"tunctl cp practice:~/tr":         "<tunctl><cp><practice:~/train.sh>",
				"tunctl cp jupyter:res":           "<tunctl><cp><jupyter:results/>",
				"tunctl cp practice:results/a":    "<tunctl><cp><practice:results/a b.csv>",
				"tunctl cp practice:.h":           "<tunctl><cp><practice:.hidden>",
				"tunctl cp local.log practice:r":  "<tunctl><cp><local.log><practice:results/>",
				"tunctl completion zs":            "<tunctl><completion><zsh>",
			} {
				if got := s.press(line); got != want {
					t.Errorf("%q becomes %s, want %s", line, got, want)
				}
			}
		})
	}
}

func TestCompletionFrozenHost(t *testing.T) {
	t.Parallel()
	u := newShellUser(t)
	u.cluster.Pause()
	defer u.cluster.Resume()
	if offered := u.run("cp", cmdline.CompletionWord+"=practice:"); offered != "" {
		t.Errorf("offered %q", offered)
	}
	if jobs := u.run("cancel", "practice", cmdline.CompletionWord+"="); !strings.HasPrefix(jobs, u.job+"\ttrain.sh running") {
		t.Errorf("offered %q", jobs)
	}
}

// Others who share a folder on the host choose the names of its files.
func TestCompletionInQuotes(t *testing.T) {
	t.Parallel()
	u := newShellUser(t)
	writeFiles(t, filepath.Join(u.cluster.Home(), "shared"), map[string]string{
		"$(touch here)": "1\n", "`touch here`": "1\n", "it's; touch here; '": "1\n", `say "$(touch here)"`: "1\n", `back\slash`: "1\n",
		"wow!touch": "1\n", "end!": "1\n",
	})
	for _, name := range []string{"bash", "zsh"} {
		t.Run(name, func(t *testing.T) {
			s := u.startShell(t, name)
			for line, want := range map[string]string{
				`tunctl cp "practice:shared/\$`:   "$(touch here)",
				`tunctl cp 'practice:shared/$`:    "$(touch here)",
				"tunctl cp \"practice:shared/\\`": "`touch here`",
				"tunctl cp 'practice:shared/`":    "`touch here`",
				`tunctl cp "practice:shared/i`:    "it's; touch here; '",
				`tunctl cp 'practice:shared/i`:    "it's; touch here; '",
				`tunctl cp "practice:shared/s`:    `say "$(touch here)"`,
				`tunctl cp 'practice:shared/s`:    `say "$(touch here)"`,
				`tunctl cp "practice:shared/b`:    `back\slash`,
				`tunctl cp 'practice:shared/b`:    `back\slash`,
				`tunctl cp practice:shared/b`:     `back\slash`,
				`tunctl cp "practice:shared/w`:    "wow!touch",
				`tunctl cp "practice:shared/e`:    "end!",
				`tunctl cp practice:"shared/s`:    `say "$(touch here)"`,
				`tunctl cp practice:'shared/i`:    "it's; touch here; '",
			} {
				want = "<tunctl><cp><practice:shared/" + want + ">"
				if got := s.press(line); got != want {
					t.Errorf("%q becomes %s, want %s", line, got, want)
				}
			}
			if _, err := os.Stat(filepath.Join(u.dir, "here")); err == nil {
				t.Error("a file's name was run")
			}
		})
	}
}
