package jobwatch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// refusalHint is a known refusal: why it comes, and how to fix it.
type refusalHint struct {
	words *regexp.Regexp
	hint  string
}

// ownRule is the hint where nothing is known: every site has rules of its own, which
// its submit filter words as it likes.
const ownRule = "this is a rule of the site: follow the message, in args of the session or in the script, or ask the support"

// refusal is the scheduler's no, in its own words, with a hint. The first of the known
// refusals that fits is taken.
func refusal(a answer, known []refusalHint) error {
	words := complaints(a)
	err := &api.Error{Code: api.CodeSubmit, Message: "the scheduler did not accept the job: " + words, Hint: ownRule}
	for _, k := range slices.Concat(known, anyRefusals) {
		if k.words.MatchString(words) {
			err.Hint = k.hint
			break
		}
	}
	return err
}

var complaintPrefix = regexp.MustCompile(`^(?:(?:sbatch|srun|qsub): (?:error: |fatal: )?|(?:error|ERROR): )`)

// complaints are the lines a submit command wrote to its standard error, without its
// name and without the usage that some print.
func complaints(a answer) string {
	var lines []string
	for line := range strings.Lines(a.stderr) {
		if strings.HasPrefix(line, "usage:") {
			break
		}
		line = strings.TrimSpace(complaintPrefix.ReplaceAllString(line, ""))
		if line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return firstComplaint(Result{Stdout: []byte(a.stdout), Exit: a.exit})
	}
	return api.Redact(api.NewRemoteText(strings.Join(lines, "; ")).FirstLine(600).String())
}

func hints(rows [][2]string) []refusalHint {
	list := make([]refusalHint, len(rows))
	for i, row := range rows {
		list[i] = refusalHint{regexp.MustCompile(`(?i)` + row[0]), row[1]}
	}
	return list
}

const (
	windowsLines = "the script has Windows line endings: convert it with dos2unix"
	fromLogin    = "this host may not submit jobs: submit from the login node"
)

// anyRefusals are of submit filters and wrappers that stand before more than one kind
// of scheduler.
var anyRefusals = hints([][2]string{
	{`no submit host|not a submit host|only .*from .*login`, fromLogin},
	{`unknown queue`, "the queue does not exist: change -q; qconf -sql or the guide of the site lists them"},
	{`unknown resource`, "the resource does not exist: change -l; qconf -sc or the guide of the site lists them"},
	{`-P flag|project not specified|specify a project`, "the project is missing: set -P PROJECT"},
	{`user group`, "the queue requires another group: set -G GROUP"},
	{`maintenance`, "a maintenance is in progress or coming: try again later, or ask for less time"},
	{`quota|disk (?:space|full)`, "your quota is used up, or the disk is full: free disk space"},
	{`line ends|line endings|line breaks`, windowsLines},
})

// commandError is the failure of a command that ran, in its own words.
func commandError(command string, exit int, words string) error {
	if exit == 127 {
		return &api.Error{
			Code:    api.CodeFailed,
			Message: fmt.Sprintf("%q is not on the host's PATH", command),
			Hint:    `set scheduler for this host in the config, or add the command to the PATH of your login shell there`,
		}
	}
	return &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("%s failed with status %d: %s", command, exit, words)}
}

// firstComplaint is the line of a command's output that says most: its last line
// that is an error, without the command's name.
func firstComplaint(res Result) string {
	text := strings.TrimSpace(string(res.Stderr))
	if text == "" {
		text = strings.TrimSpace(string(res.Stdout))
	}
	if text == "" {
		return fmt.Sprintf("status %d", res.Exit)
	}
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return api.Redact(api.NewRemoteText(last).FirstLine(300).String())
}

// reason is why a job does not run, in words.
type reason struct {
	words string
	held  bool
	// never: waiting does not help; somebody has to do something.
	never bool
}

func (r reason) hint() string {
	if r.never && !r.held {
		return "the job will never start as submitted: " + strings.Replace(r.words, "the job asks", "it asks", 1)
	}
	return r.words
}
