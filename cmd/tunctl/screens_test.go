package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// screensFile is where a script's screens are collected, in its work directory.
const screensFile = "screens"

// changing are the parts of a screen that differ from run to run, and what stands for
// them. Columns follow the width of what is in them, so gaps count as two spaces.
var changing = []struct {
	part *regexp.Regexp
	mark string
}{
	// How many steps of an up are shown depends on the machine; the result does not.
	{regexp.MustCompile(`(?m)^\| … .*\n(\|   .*\n)*`), ""},
	{regexp.MustCompile(`(?m)^\| ✓ (queued|ran a command|(started|\w+ responds) on) .*\n|^\| ✗ waiting .*\n`), ""},
	// What a job uses differs, and is not shown if measuring takes too long.
	{regexp.MustCompile(`(?m)^  (\d+ % of \d+ CPUs?, )?memory \S+ \w+ of .*\n`), ""},
	// On a busy machine the page is ready before the way through the job is.
	{regexp.MustCompile(`(?m)^  ! kernels and terminals of the page .*\n`), ""},
	// The scripts' ssh config names a missing key, for hosts that should fail.
	{regexp.MustCompile(`(?m)^\| tunctl: warning: .*no_key.*\n`), ""},
	{regexp.MustCompile(`SHA256:[A-Za-z0-9+/]+`), "SHA256:KEY"},
	{regexp.MustCompile(`token=[^•\s]+`), "token=TOKEN"},
	{regexp.MustCompile(`\b(localhost|cn0\d|127\.0\.0\.1\]?):\d{4,5}\b`), "$1:PORT"},
	{regexp.MustCompile(`\bcn0\d\b`), "NODE"}, // the practice cluster takes them in turn
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?`), "DATE"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)( \d+ [A-Z][a-z][a-z])? \d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`(^|[^\d:-])\d\d:\d\d(:\d\d)?\b`), "${1}CLOCK"},
	{regexp.MustCompile(`\b(\d+ d )?\d+ h \d\d min\b|\b\d+ min( \d+ s)?\b|\b\d+(\.\d+)? m?s\b`), "TIME"},
	{regexp.MustCompile(`\bpid \d+, version [^\s,]+`), "pid PID, version VERSION"},
	{regexp.MustCompile(`\b1\d{4}\b`), "PORT"}, // one that the script reserved
	{regexp.MustCompile(`(\S)  +`), "$1  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

// recordScreen runs a command and adds what the user sees to the script's screens: the
// command, its messages (after "|"), its data and its exit code: screen tunctl up jupyter.
// With TUNCTL_UPDATE_SCREENS=1, `cmp screens FILE` rewrites the script; read the texts
// before you commit them.
func recordScreen(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[0], args[1:]...)
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		ts.Fatalf("%v", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n", strings.Join(args, " "))
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		b.WriteString("| " + line)
	}
	b.WriteString(ts.ReadFile("stdout"))
	if failed {
		fmt.Fprintf(&b, "(exit code %d)\n", exit.ExitCode())
	}
	b.WriteString("\n")
	f, err := os.OpenFile(ts.MkAbs(screensFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = f.WriteString(settled(ts, b.String()))
	ts.Check(errors.Join(err, f.Close()))
}

// settled is a screen without what differs from run to run.
func settled(ts *testscript.TestScript, text string) string {
	text = strings.ReplaceAll(text, filepath.Dir(ts.MkAbs(screensFile)), "WORK")
	for _, c := range changing {
		text = c.part.ReplaceAllString(text, c.mark)
	}
	return text
}
