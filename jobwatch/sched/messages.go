package sched

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/jobwatch/remote"
)

// Message is a known message of a scheduler, and what it means to the user. About a job that waits, Words are for
// one that may still start, and Never for one that never can; one without words is always of such a job.
type Message struct {
	Pattern      func() *regexp.Regexp
	Words, Never string
}

// Messages makes messages of rows: a pattern, without case, and the words.
func Messages(rows [][3]string) []Message {
	return lists.Map(rows, func(row [3]string) Message { return Message{LazyPattern(`(?i)` + row[0]), row[1], row[2]} })
}

// BestMatch is the first known message in one of the lines, and its line.
func BestMatch(known []Message, lines ...string) (Message, string) {
	for _, m := range known {
		for _, line := range lines {
			if m.Pattern().MatchString(line) {
				return m, line
			}
		}
	}
	return Message{}, ""
}

// LazyPattern compiles a pattern when it is first used: most commands need none of these,
// and all of them together would take a good part of a command's time.
func LazyPattern(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// SiteRuleHint is the hint for an unknown refusal: every site has its own rules, and its
// submit filter its own messages.
const SiteRuleHint = "the site requires this: change it in the script, or in args of the session, or ask its support"

// RefusalError is the error of a job that was not accepted: the scheduler's message, with the
// hint of the first known refusal that matches.
func RefusalError(res remote.Result, known []Message) error {
	if res.Exit == 127 {
		return api.Errorf(api.CodeSubmit, "the scheduler's submit command was not found on the host: %s", LastErrorLine(res)).
			WithHint("%s", notOnPath)
	}
	words := errorLines(res)
	refusal, _ := BestMatch(slices.Concat(siteRefusals, known, commonRefusals), words)
	hint := cmp.Or(refusal.Words, SiteRuleHint)
	if m := listedAccounts().FindStringSubmatch(words); m != nil {
		if names := accountName().FindAllString(m[1], -1); len(names) > 0 {
			hint = "choose one of these accounts, for example: --with account=" + names[0]
		}
	}
	return api.Errorf(api.CodeSubmit, "the scheduler did not accept the job: %s", words).
		WithHint("%s", hint)
}

// SubmitError is the error of a submit command that printed no id: doubt matches the messages
// after which the job may exist all the same.
func SubmitError(res remote.Result, doubt *regexp.Regexp, known []Message) error {
	if res.Exit == 0 || slices.Contains(killedStatuses, res.Exit) || doubt != nil && doubt.Match(res.Stderr) {
		return ErrDoubt
	}
	return RefusalError(res, known)
}

// Complaint is the last line that a submit command wrote to standard error, without its name.
func Complaint(res remote.Result) string {
	return complaintPrefix.ReplaceAllString(LastErrorLine(res), "")
}

// LastMatch is the last line that has the id of a new job, in the first of these forms that there
// is: submit plugins print lines of their own.
func LastMatch(out []byte, forms ...*regexp.Regexp) []string {
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
		if line = strings.TrimSpace(decoration.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { // what the site says to do comes before what its scheduler says
		return TrueFirst(imperative().MatchString(a), imperative().MatchString(b))
	})
	if len(lines) == 0 {
		return LastErrorLine(remote.Result{Stdout: res.Stdout, Exit: res.Exit})
	}
	return api.Redact(api.NewRemoteText(strings.Join(lines, "; ")).FirstLine(600).String())
}

var (
	// decoration is what submit filters draw around their messages.
	decoration = regexp.MustCompile(`^[\s*#=~_+!|-]{3,}|[\s*#=~_+!|-]{3,}$`)
	// imperative matches a sentence of a submit filter that says what to do.
	imperative = LazyPattern(`(?i)\bplease\b|` + mustGive)
	// listedAccounts matches the accounts that a submit filter lists, and accountName each of them.
	listedAccounts = LazyPattern(`(?i)(?:one of|valid|available|your)(?: the)?(?: following)? (?:accounts?|projects?|allocations?)(?: are| is)?: *(.+)`)
	accountName    = LazyPattern(`[A-Za-z][\w.-]*\w`)
)

// mustGive is the part of a pattern before what a submit filter wants to have.
const mustGive = `(?:please|must|needs? to|ha(?:ve|s) to|required? to|forgot to|should|did ?n[o']t|not) (?:\w+ ){0,2}?(?:specif|provid|set|giv|request|inclu|add|indicat|defin|select|choos|us)\w*\b`

// siteRefusals are of sites' submit filters: they say what is missing, so they count before those of a scheduler.
var siteRefusals = Messages([][3]string{
	{
		`(?:batch jobs?|sbatch)\b.{0,40}\b(?:can ?not|may not|must not|not allowed|not permitted)\b|(?:only|reserved) for interactive|interactive (?:jobs|sessions|use) only|not (?:allow|accept|take)\w* batch jobs`,
		"this partition takes no batch jobs: change --partition to one for batch jobs, in args of the session or in the script",
	},
	{
		`(?:request|use|ask for|allocate|need|reserve)\b.{0,30}\b(?:whole|full|entire|complete) nodes?|(?:whole|full) nodes? (?:only|must|are required)`,
		"jobs get whole nodes here: ask for all cores of a node, or add --exclusive, in args of the session or in the script; or change --partition",
	},
	{
		`(?:submit|run|try|start|launch)\w*\b.{0,50}\b(?:from|in|on|under|within|using) .{0,30}(?:scratch|/work\b|/lustre)|(?:from|in|under) (?:your |the )?(?:home|\$HOME)\b.{0,60}(?:not (?:allowed|permitted|possible|accepted))`,
		`the job must be submitted from another folder: set workdir = "/scratch/…" in the session`,
	},
	{mustGive + `.{0,40}\bq(?:uality )?o(?:f )?s(?:ervice)?\b`, "the site requires a QoS: set --qos in args of the session or in the script"},
	{mustGive + `.{0,40}(?:\bgpus?\b|--gres|\bgres\b)`, "the site requires a number of GPUs: set it, for example --gres=gpu:1, in args of the session or in the script"},
	{mustGive + `.{0,40}(?:time ?limit|wall ?(?:clock )?time|run ?time|--time)`, "the site requires a time limit: set --time (PBS: -l walltime=HH:MM:SS) in args of the session or in the script"},
	{mustGive + `.{0,40}(?:\baccount\b|\bproject\b|\ballocation\b|\s-A\b)`, "the site requires an account or project: set --account (PBS: -A or -P PROJECT) in args of the session or in the script"},
})

// Hints and patterns of several schedulers.
const (
	WindowsLines = "the script has Windows line endings: convert it with dos2unix"
	DiskFull     = `quota|disk (?:space|full)|no space left`
	DiskFullHint = "your quota is used up, or the disk is full: free disk space"
	FromLogin    = "this host may not submit jobs: submit from the login node"
)

// commonRefusals are of submit filters and wrappers that exist for several schedulers.
var commonRefusals = Messages([][3]string{
	{`no submit host|not a submit host|neither submit nor admin host|only .*from .*login`, FromLogin},
	{`-P flag|project not specified|specify a project`, "the project is missing: set -P PROJECT"},
	{`user group`, "the queue requires another group: set -G GROUP"},
	{`maintenance`, "a maintenance is in progress or coming: try again later, or ask for less time"},
	{DiskFull, DiskFullHint},
	{`line ends|line endings|line breaks`, WindowsLines},
})

// Reason is why a job does not run.
type Reason struct {
	Words string
	Held  bool
	// Never: waiting does not help; the user must act.
	Never bool
}

// Hint is what the user reads about it.
func (r Reason) Hint() string {
	if r.Never && !r.Held {
		return api.HintNeverStarts + ": " + strings.Replace(r.Words, "the job asks", "it asks", 1)
	}
	return r.Words
}

// SuspendedHint is that of a suspended job.
const SuspendedHint = "the job is suspended by the scheduler or an administrator: nothing responds until it is resumed"

// ExitHint is that of a job whose script failed.
func ExitHint(status int) string {
	return fmt.Sprintf("the script ended with exit status %d: see the log", status)
}

const notOnPath = "set scheduler for this host in the config, or add the command to the PATH of your login shell there"

// CommandError is the error of a command that failed, with its message.
func CommandError(command string, exit int, words string) error {
	if exit == 127 {
		return api.Errorf(api.CodeFailed, "%q is not on the host's PATH", command).
			WithHint("%s", notOnPath)
	}
	return api.Errorf(api.CodeFailed, "%s failed with status %d: %s", command, exit, words)
}

// Failure is the error for a command's status and messages, nil for success. noAnswer and noJob match the
// messages that mean ErrNoAnswer and ErrNoJob.
func Failure(command string, res remote.Result, noAnswer, noJob *regexp.Regexp) error {
	switch {
	case res.Exit == 0:
		return nil
	case res.Exit == 124:
		return fmt.Errorf("%w: %s did not end in time", remote.ErrNoAnswer, command)
	case noAnswer.Match(res.Stderr):
		return fmt.Errorf("%w: %s", remote.ErrNoAnswer, LastErrorLine(res))
	case noJob != nil && noJob.Match(res.Stderr):
		return ErrNoJob
	}
	return CommandError(command, res.Exit, LastErrorLine(res))
}

// LastErrorLine is the most useful line of a failed command's output: the last one.
func LastErrorLine(res remote.Result) string {
	text := cmp.Or(strings.TrimSpace(string(res.Stderr)), strings.TrimSpace(string(res.Stdout)))
	if text == "" {
		return fmt.Sprintf("status %d", res.Exit)
	}
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return api.Redact(api.NewRemoteText(last).FirstLine(300).String())
}

// killedStatuses are of a submit command that was ended by its time limit or by a signal. PBS's own
// statuses are above these.
var killedStatuses = []int{124, 128 + 1, 128 + 2, 128 + 3, 128 + 9, 128 + 13, 128 + 15}
