package jobwatch

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

// refusalHint is a known refusal, with its cause and how to fix it.
type refusalHint struct {
	words func() *regexp.Regexp
	hint  string
}

// lazyPattern compiles a pattern when it is first used: most commands need none of these,
// and all of them together would take a good part of a command's time.
func lazyPattern(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// siteRuleHint is the hint for an unknown refusal: every site has its own rules, and its
// submit filter its own messages.
const siteRuleHint = "the site requires this: change it in the script, or in args of the session, or ask its support"

// refusal is the error of a job that was not accepted: the scheduler's message, with the
// hint of the first known refusal that matches.
func refusal(res remote.Result, known []refusalHint) error {
	words := errorLines(res)
	hint := hintOf(words, slices.Concat(known, commonRefusals))
	return api.Errorf(api.CodeSubmit, "the scheduler did not accept the job: %s", words).
		WithHint("%s", cmp.Or(hint, siteRuleHint))
}

// hintOf is the hint of the first known refusal that matches; "" if none does.
func hintOf(words string, known []refusalHint) string {
	for _, k := range known {
		if k.words().MatchString(words) {
			return k.hint
		}
	}
	return ""
}

// submitFailure is the error of a submit command that failed: doubt matches the messages
// after which the job may exist all the same.
func submitFailure(res remote.Result, doubt *regexp.Regexp, known []refusalHint) error {
	if slices.Contains(killedStatuses, res.Exit) || doubt.Match(res.Stderr) {
		return errDoubt
	}
	return refusal(res, known)
}

// lastMatch is the last line that has the id of a new job, in the first of these forms that there
// is: submit plugins print lines of their own.
func lastMatch(out []byte, forms ...*regexp.Regexp) []string {
	for _, id := range forms {
		for _, line := range slices.Backward(strings.Split(string(out), "\n")) {
			if m := id.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				return m
			}
		}
	}
	return nil
}

var complaintPrefix = regexp.MustCompile(`^(?:(?:sbatch|srun|qsub): (?:error: |fatal: )?|(?:error|ERROR): )`)

// errorLines are the lines that a submit command wrote to standard error, without its name
// and its usage text.
func errorLines(res remote.Result) string {
	var lines []string
	for line := range strings.Lines(string(res.Stderr)) {
		if strings.HasPrefix(line, "usage:") {
			break
		}
		line = strings.TrimSpace(complaintPrefix.ReplaceAllString(line, ""))
		if line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return lastErrorLine(remote.Result{Stdout: res.Stdout, Exit: res.Exit})
	}
	return api.Redact(api.NewRemoteText(strings.Join(lines, "; ")).FirstLine(600).String())
}

func refusalHints(rows [][2]string) []refusalHint {
	list := make([]refusalHint, len(rows))
	for i, row := range rows {
		list[i] = refusalHint{lazyPattern(`(?i)` + row[0]), row[1]}
	}
	return list
}

const (
	windowsLines = "the script has Windows line endings: convert it with dos2unix"
	diskFull     = `quota|disk (?:space|full)|no space left`
	diskFullHint = "your quota is used up, or the disk is full: free disk space"
	fromLogin    = "this host may not submit jobs: submit from the login node"
)

// commonRefusals are of submit filters and wrappers that exist for several schedulers.
var commonRefusals = refusalHints([][2]string{
	{`no submit host|not a submit host|neither submit nor admin host|only .*from .*login`, fromLogin},
	{`-P flag|project not specified|specify a project`, "the project is missing: set -P PROJECT"},
	{`user group`, "the queue requires another group: set -G GROUP"},
	{`maintenance`, "a maintenance is in progress or coming: try again later, or ask for less time"},
	{diskFull, diskFullHint},
	{`line ends|line endings|line breaks`, windowsLines},
})

// reason is why a job does not run.
type reason struct {
	words string
	held  bool
	// never: waiting does not help; a person must act.
	never bool
}

func (r reason) hint() string {
	if r.never && !r.held {
		return NeverStarts + ": " + strings.Replace(r.words, "the job asks", "it asks", 1)
	}
	return r.words
}

// waitReason is a known message about a waiting job: its meaning while the job may still start, and
// if it never can. One without words is always of a job that never can.
type waitReason struct {
	part         func() *regexp.Regexp
	words, never string
}

// telling is the first known message in one of the lines, and its line.
func telling(known []waitReason, lines ...string) (waitReason, string) {
	for _, w := range known {
		for _, line := range lines {
			if w.part().MatchString(line) {
				return w, line
			}
		}
	}
	return waitReason{}, ""
}

// NeverStarts begins the hint of a queued job for which waiting does not help.
const NeverStarts = "the job will never start as submitted"

// Suspended is the reason of a running job whose processes are stopped.
const Suspended = "SUSPENDED"

const suspendedHint = "the job is suspended by the scheduler or an administrator: nothing responds until it is resumed"

func exitHint(status int) string {
	return fmt.Sprintf("the script ended with exit status %d: see the log", status)
}

// commandError is the error of a command that failed, with its message.
func commandError(command string, exit int, words string) error {
	if exit == 127 {
		return api.Errorf(api.CodeFailed, "%q is not on the host's PATH", command).
			WithHint("set scheduler for this host in the config, or add the command to the PATH of your login shell there")
	}
	return api.Errorf(api.CodeFailed, "%s failed with status %d: %s", command, exit, words)
}

// lastErrorLine is the most useful line of a failed command's output: the last one.
func lastErrorLine(res remote.Result) string {
	text := cmp.Or(strings.TrimSpace(string(res.Stderr)), strings.TrimSpace(string(res.Stdout)))
	if text == "" {
		return fmt.Sprintf("status %d", res.Exit)
	}
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return api.Redact(api.NewRemoteText(last).FirstLine(300).String())
}
