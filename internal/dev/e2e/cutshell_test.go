//go:build linux

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/dev/ptytest"
)

// openShells are what the user has open inside a job when the connection is lost.
type openShells struct {
	*cutter
	shell  *ptytest.Program // shows top, and has a job in the background
	top    string           // its screen
	editor *ptytest.Program
	cat    *halfRead
}

const (
	// background writes the time to a file, every second.
	background = "while sleep 1; do date +%s; done >ticks &"
	// catSize is how many bytes are printed at once, and catRead how many of them are read before
	// the connection is lost. What may be on its way is far less than the rest.
	catSize, catRead = 50_000_000, 10_000_000
)

func (c *cutter) openShells() *openShells {
	c.t.Helper()
	s := &openShells{cutter: c, shell: c.terminal(), editor: c.terminal()}
	s.shell.Answer(background + " x=kept; top -d 1")
	s.top = s.shell.AwaitScreen("does not show top", func(screen string) bool { return topTime(screen) >= 0 })
	s.editor.Answer("rm -f notes; vi -u NONE notes")
	s.editor.ExpectScreen("\"notes\" [New")
	s.editor.Type("ibefore the cut\n")
	s.editor.ExpectScreen("before the cut")
	sum := c.inHome("head -c " + strconv.Itoa(catSize) + " /dev/urandom >much && sha256sum much")
	s.cat = c.startReading(strings.Fields(sum)[0])
	return s
}

// terminal is `tunctl ssh` in a terminal, with a prompt.
func (c *cutter) terminal() *ptytest.Program {
	c.t.Helper()
	cmd := c.command("ssh", "jupyter")
	cmd.Env = append(cmd.Env, "TERM=xterm")
	p := ptytest.StartSized(c.t, cmd, 100, 30)
	p.Answer("cd; echo ready-$((6*7))")
	p.Expect("ready-42")
	return p
}

// inHome runs a command in the cluster's home folder.
func (c *cutter) inHome(command string) string {
	c.t.Helper()
	out, err := c.lab.As("hpcuser", "sh", "-c", "cd; "+command)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// halfRead is a command that prints much, of which a part was read.
type halfRead struct {
	sum  hash.Hash
	out  io.Reader
	wait func() error
	want string
}

func (c *cutter) startReading(want string) *halfRead {
	c.t.Helper()
	cmd := c.command("ssh", "jupyter", "cat much")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	r := &halfRead{sum: sha256.New(), out: out, wait: cmd.Wait, want: want}
	if err == nil {
		_, err = io.CopyN(r.sum, out, catRead)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// typeAway types while there is no connection.
func (s *openShells) typeAway() { s.editor.Type("typed without a connection\n") }

// check checks that everything has continued after an outage.
func (s *openShells) check(off time.Duration) {
	t := s.t
	t.Helper()
	rest, err := io.Copy(s.cat.sum, s.cat.out)
	if err == nil {
		err = s.cat.wait()
	}
	if sum := hex.EncodeToString(s.cat.sum.Sum(nil)); sum != s.cat.want || err != nil {
		t.Errorf("%d bytes of %d, or others: %v", catRead+rest, catSize, err)
	}

	s.editor.ExpectScreen("typed without a connection")
	if got, want := strings.SplitN(s.editor.Screen(), "\n", 4)[:3], []string{"before the cut", "typed without a connection", ""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the editor shows %q", got)
	}
	s.editor.Type("after it\x1b:wq\n")
	s.editor.Expect("written")
	awaitPrompt(s.editor)
	s.editor.Answer("exit 5")
	if code, _ := s.editor.End(); code != 5 {
		t.Errorf("the editor's shell ended with %d", code)
	}
	if notes := s.inHome("cat notes"); notes != "before the cut\ntyped without a connection\nafter it\n" {
		t.Errorf("the editor wrote %q", notes)
	}

	later := (topTime(s.top) + int(off.Seconds())) % secondsOfDay
	screen := s.shell.AwaitScreen("shows an old top", func(screen string) bool {
		now := topTime(screen)
		return now >= later && now < later+secondsOfDay/2
	})
	for i, line := range []string{`^top - `, `^Tasks: +\d+ total,`, `^%Cpu`, `^MiB Mem :`, `^MiB Swap:`, `^$`, `^ +PID USER .* COMMAND$`, `^ *\d+ \S+ .* \S+$`} {
		if row := strings.Split(screen, "\n")[i]; !regexp.MustCompile(line).MatchString(row) {
			t.Errorf("row %d of top is %q", i, row)
		}
	}
	s.shell.Type("q")
	awaitPrompt(s.shell)
	s.shell.Answer("echo $x-$((6*7)); jobs; kill %1; exit 6")
	s.shell.Expect("kept-42")
	s.shell.Expect("Running")
	if code, _ := s.shell.End(); code != 6 {
		t.Errorf("the shell ended with %d", code)
	}
	s.checkTicks(off)
}

// awaitPrompt waits for the shell: full-screen programs drop what was typed before their end.
func awaitPrompt(p *ptytest.Program) {
	p.AwaitScreen("has no prompt", func(screen string) bool { return strings.HasSuffix(strings.TrimRight(screen, " \n"), "$") })
}

const secondsOfDay = 24 * 60 * 60

// topTime is the second of the day that a screen of top shows; -1: it shows none.
func topTime(screen string) int {
	at, err := time.Parse("top - 15:04:05", screen[:min(len(screen), len("top - 15:04:05"))])
	if err != nil {
		return -1
	}
	return at.Hour()*3600 + at.Minute()*60 + at.Second()
}

// checkTicks checks that the program in the background has never waited.
func (s *openShells) checkTicks(off time.Duration) {
	s.t.Helper()
	ticks := strings.Fields(s.inHome("cat ticks"))
	longest, last := 0, 0
	for i, tick := range ticks {
		at, err := strconv.Atoi(tick)
		if err != nil {
			s.t.Fatal(err)
		}
		if i > 0 {
			longest = max(longest, at-last)
		}
		last = at
	}
	if len(ticks) < int(off.Seconds())/2 || longest > int(off.Seconds())/2 {
		s.t.Errorf("%d ticks of the program in the background, at most %d s apart", len(ticks), longest)
	}
}
