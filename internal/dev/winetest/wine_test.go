//go:build linux

package winetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/dev/real"
)

// wanted is the variable that asks for these tests; `make wine` sets it.
const wanted = "TUNCTL_WINE"

// wine is the computer that all tests share.
var wine computer

func TestMain(m *testing.M) {
	code := real.Main(m)
	if err := wine.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// needWine skips a test unless it was asked for, and fails it if there is no Wine. The
// first test installs the computer: TestMain runs in more processes than the tests do.
func needWine(t *testing.T, groups ...string) {
	t.Helper()
	if os.Getenv(wanted) == "" {
		t.Skip("`make wine` runs the tests under Wine")
	}
	real.Need(t, append(groups, "wine")...)
	if err := wine.installed(); err != nil {
		t.Fatal(err)
	}
}

// computer is a Windows of Wine's in a folder of its own, with tunctl installed.
type computer struct {
	dir     string
	program string // as Windows names it

	once   sync.Once
	failed error // of install
}

// installed installs the computer, the first time.
func (c *computer) installed() error {
	c.once.Do(func() { c.failed = c.install() })
	return c.failed
}

// programDir has a space and a letter beyond ASCII, as the folders of many people have.
const programDir = "Program Files/tunctl für Jörg"

// install makes the computer and builds tunctl for it.
func (c *computer) install() error {
	var err error
	if c.dir, err = os.MkdirTemp("", "tunctl-wine-"); err != nil {
		return err
	}
	if out, err := c.command("wineboot", "--init").CombinedOutput(); err != nil {
		return fmt.Errorf("wineboot: %w\n%s", err, out)
	}
	if err := c.addRandom(); err != nil {
		return err
	}
	c.program = `C:\` + strings.ReplaceAll(programDir, "/", `\`) + `\tunctl.exe`
	return c.build(filepath.Join(c.drive(), programDir, "tunctl.exe"), "build", "tunctl/cmd/tunctl")
}

// build has Go build something for Windows.
func (c *computer) build(out string, args ...string) error {
	args = slices.Insert(args, 1, "-o", out, "-ldflags", "-s -w")
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

// addRandom adds the source of random numbers that Go uses, which Wine 8 lacks: a library
// that passes its one function on to an older one. Nothing has to be compiled for that.
func (c *computer) addRandom() error {
	for name, text := range map[string]string{
		"random.def": "LIBRARY bcryptprimitives.dll\nEXPORTS\nProcessPrng = advapi32.SystemFunction036\n",
		"random.s":   ".globl entry\nentry:\n mov $1, %eax\n ret\n",
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, argv := range [][]string{
		{"x86_64-w64-mingw32-as", "-o", "random.o", "random.s"},
		{"x86_64-w64-mingw32-ld", "-shared", "-e", "entry", "-o", filepath.Join(c.drive(), "windows/system32/bcryptprimitives.dll"), "random.o", "random.def"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = c.dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", argv[0], err, text)
		}
	}
	return nil
}

// remove ends all programs of the computer and removes it.
func (c *computer) remove() error {
	if c.dir == "" {
		return nil
	}
	_ = c.command("wineserver", "--kill").Run() // fails where nothing runs any more
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(c.commandIn(ctx, "wineserver", "--wait").Run(), os.RemoveAll(c.dir))
}

// drive is the folder that is C:.
func (c *computer) drive() string { return filepath.Join(c.dir, "prefix", "drive_c") }

// command is a program of Wine's, or one of Windows after "wine".
func (c *computer) command(name string, args ...string) *exec.Cmd {
	return c.commandIn(context.Background(), name, args...)
}

func (c *computer) commandIn(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "WINEPREFIX="+filepath.Join(c.dir, "prefix"), "WINEDEBUG=-all", "LC_ALL=C.UTF-8", "DISPLAY=")
	return cmd
}

// user is somebody at the computer, with files of their own.
type person struct {
	t    *testing.T
	home string // TUNCTL_HOME as Linux has it
	env  []string
}

// newPerson has a config and the ssh config of a cluster on the Linux side. The folder has
// a space and letters beyond ASCII.
func newPerson(t *testing.T, sshConfig, config string) *person {
	t.Helper()
	users := filepath.Join(wine.drive(), "users", "Jörg Müller")
	if err := os.MkdirAll(users, 0o700); err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(users, "Größe ")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sshConfig)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, home: home}
	p.write("ssh_config", strings.ReplaceAll(string(text), " /", " Z:/"))
	p.write("config.toml", config)
	p.env = []string{
		"TUNCTL_HOME=" + p.path(""), "TUNCTL_SSH_CONFIG=" + p.path("ssh_config"), "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=1",
		"SSH_AUTH_SOCK=", "NO_COLOR=1",
	}
	t.Cleanup(p.close)
	return p
}

// path is the Windows path of a file of the user's.
func (p *person) path(name string) string {
	return `C:` + strings.ReplaceAll(strings.TrimPrefix(filepath.Join(p.home, name), wine.drive()), "/", `\`)
}

func (p *person) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.home, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) close() {
	p.tunctl("agent", "stop").must(0)
	log := p.agentLog()
	if strings.Contains(log, "panic:") {
		p.t.Error("the agent crashed")
	}
	if p.t.Failed() {
		p.t.Logf("the agent's log:\n%s", log)
	}
}

func (p *person) agentLog() string {
	log, _ := os.ReadFile(filepath.Join(p.home, "state", "agent.log")) // there may be none
	return string(log)
}

// result is what a command printed and how it ended.
type result struct {
	p         *person
	args      []string
	code      int
	out, talk string
}

// tunctl runs a command as the user would.
func (p *person) tunctl(args ...string) result { return p.run(wine.program, args...) }

// run runs a program of Windows, and runs it again if Wine ended it.
func (p *person) run(program string, args ...string) result {
	p.t.Helper()
	r := p.runOnce(program, args)
	for again := 0; again < 3 && r.endedByWine(); again++ {
		p.t.Logf("Wine ended %s, which is run again: exit code %d %q", strings.Join(args, " "), r.code, r.talk)
		r = p.runOnce(program, args)
	}
	return r
}

// endedByWine reports that Wine ended the program, or a thread of it, in the middle: where
// several processes start and end at once, Wine 8 closes its connection to the wineserver
// while a thread still uses it. Wine says so ("wine client error", "wine: Unhandled page fault"),
// the wineserver kills the program, or the program says nothing at all, which no command of these
// tests does by itself.
func (r result) endedByWine() bool {
	return r.code < 0 || r.out+r.talk == "" || strings.Contains("\n"+r.talk, "\nwine")
}

// runOnce runs a program of Windows. Its output goes to files: an agent that it starts
// keeps a pipe open.
func (p *person) runOnce(program string, args []string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := wine.commandIn(ctx, "wine", append([]string{program}, args...)...)
	cmd.Env = append(cmd.Env, p.env...)
	dir := p.t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	talk, err := os.Create(filepath.Join(dir, "talk"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = talk.Close() }()
	cmd.Stdout, cmd.Stderr = out, talk
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || ctx.Err() != nil) {
		p.t.Errorf("%s: %v", strings.Join(args, " "), err)
	}
	r := result{p: p, args: args, code: cmd.ProcessState.ExitCode()}
	for name, to := range map[string]*string{"out": &r.out, "talk": &r.talk} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			p.t.Fatal(err)
		}
		*to = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	return r
}

// must fails the test unless the command ended with a code.
func (r result) must(code int) result {
	r.p.t.Helper()
	if r.code != code {
		r.p.t.Errorf("%s: exit code %d, want %d\n%s%s", strings.Join(r.args, " "), r.code, code, r.out, r.talk)
	}
	return r
}
