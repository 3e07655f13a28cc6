package configs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tunctl/internal/api"
)

// QuestionKind is the kind of an answer.
type QuestionKind string

// The kinds of questions. All but paths and lists of words are safe in a directive of a
// scheduler, which has no reliable quoting.
const (
	AskWord   QuestionKind = "word"   // letters, digits and a little punctuation
	AskWords  QuestionKind = "words"  // some of these, with spaces between
	AskNumber QuestionKind = "number" // a whole number
	AskHours  QuestionKind = "hours"  // 2 or 0.5
	AskMemory QuestionKind = "memory" // 8G, 512M
	AskPath   QuestionKind = "path"   // on the host; ~/ is the home folder
	AskChoice QuestionKind = "choice" // one of Choices
	AskQueue  QuestionKind = "queue"  // a word; the site's table of queues has the limits of those it knows
)

// Question is a question of a site's job.
type Question struct {
	Name    string       `json:"name"`
	Ask     string       `json:"ask"`
	Kind    QuestionKind `json:"kind"`
	Default string       `json:"default,omitempty"`
	// GPUDefault is the default for a job with GPUs, if that is another one.
	GPUDefault string   `json:"gpuDefault,omitempty"`
	Choices    []string `json:"choices,omitempty"`
	Required   bool     `json:"required,omitempty"`
	Min        float64  `json:"min,omitempty"` // the least, of a number or of hours
	Max        float64  `json:"max,omitempty"` // the most, of a number or of hours
	// Quiet questions are asked together at the end of `tunctl init`: their defaults are
	// usually right.
	Quiet bool `json:"quiet,omitempty"`
}

// DefaultText says after the question what an empty answer means.
func (q *Question) DefaultText() string {
	switch {
	case q.Default != "":
		return " [" + q.Default + "]"
	case q.Required:
		return " (required)"
	}
	return ""
}

var (
	goodVariable = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	goodWord     = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9._:@/+,=-]*$`)
	goodMemory   = regexp.MustCompile(`(?i)^[1-9][0-9]*[KMGT]B?$`)
)

// reservedNames are the variables of the job templates, and those of the shell that must
// not change.
var reservedNames = []string{
	"app", "name", "job", "private", "run", "node", "bind", "port", "base", "serve", "try", "status", "taken", "program", "usual_umask", "tested",
	"page", "command", "prepare", "inside", "data",
}

// Check returns the answer in its normal form, or why it is invalid.
func (q *Question) Check(answer string) (string, error) {
	answer = strings.TrimSpace(answer)
	valid, wanted := q.valid(answer)
	switch {
	case answer == "" && (q.Required || q.Kind == AskHours && q.Default != ""): // a job without a time limit is never meant
		return "", fmt.Errorf("%q is required: %s", q.Name, q.Ask)
	case answer != "" && !valid:
		return "", fmt.Errorf("%q must be %s, not %q", q.Name, wanted, answer)
	}
	return answer, nil
}

// valid reports whether an answer is valid, and says what a valid one is.
func (q *Question) valid(answer string) (ok bool, wanted string) {
	switch q.Kind {
	case AskNumber:
		n, err := strconv.Atoi(answer)
		return err == nil && n >= 0 && q.allows(float64(n)), "a whole number" + q.bounds()
	case AskHours:
		h, err := strconv.ParseFloat(answer, 64)
		return err == nil && h > 0 && h <= 10000 && q.allows(h), "a number of hours" + cmp.Or(q.bounds(), ", such as 2 or 0.5")
	case AskMemory: // 16 is 16 MB to Slurm, and 16 bytes to PBS
		return goodMemory.MatchString(answer), "an amount of memory with its unit, such as 8G"
	case AskChoice:
		return slices.Contains(q.Choices, answer), "one of " + alternatives(q.Choices)
	case AskWords:
		bad := slices.ContainsFunc(strings.Fields(answer), func(w string) bool { return !goodWord.MatchString(w) })
		return !bad, "words of letters and digits"
	case AskPath:
		return !strings.HasPrefix(answer, "-") && !strings.ContainsFunc(answer, unicode.IsControl), "a path on the host"
	}
	return goodWord.MatchString(answer), "one word without spaces or quotes"
}

// allows reports whether a number is neither less than Min nor more than Max.
func (q *Question) allows(n float64) bool { return n >= q.Min && (q.Max == 0 || n <= q.Max) }

// bounds describes Min and Max.
func (q *Question) bounds() string {
	var text string
	if q.Min > 0 {
		text = ", at least " + decimal(q.Min)
	}
	if q.Max > 0 {
		text += ", at most " + decimal(q.Max)
	}
	return text
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// directive reports whether an answer is safe in a directive of a scheduler.
func (q *Question) directive() bool { return q.Kind != AskPath && q.Kind != AskWords }

func (q *Question) fields() []field {
	return []field{
		{"ask", `"Which project is charged?"`, text(&q.Ask)},
		{"kind", `"word"`, word(&q.Kind, AskWord, AskWords, AskNumber, AskHours, AskMemory, AskPath, AskChoice, AskQueue)},
		{"default", `"1"`, func(in *input) {
			if in.isScalar() {
				q.Default = in.text
			}
		}},
		{"choices", `["a", "b"]`, texts(&q.Choices)},
		{"required", `true`, boolean(&q.Required)},
		{"min", `1`, number(&q.Min, 0, 1e6)},
		{"max", `168`, number(&q.Max, 0, 1e6)},
		{"gpu_default", `"gpu"`, text(&q.GPUDefault)},
		{"quiet", `true`, boolean(&q.Quiet)},
	}
}

// sample is a valid answer.
func (q *Question) sample() string {
	switch q.Kind {
	case AskNumber, AskHours:
		return strconv.Itoa(int(math.Ceil(max(1, q.Min))))
	case AskMemory:
		return "8G"
	case AskChoice:
		return q.Choices[0]
	case AskPath:
		return "~/folder"
	}
	return "example"
}

// example is an answer as written in the config.
func (q *Question) example() string {
	switch q.Kind {
	case AskNumber, AskHours:
		return q.sample()
	case AskMemory, AskChoice, AskPath:
		return strconv.Quote(q.sample())
	}
	return `"…"`
}

// questionNamed returns the question of that name.
func questionNamed(questions []Question, name string) (Question, bool) {
	return find(questions, func(q Question) bool { return q.Name == name })
}

func questionNames(questions []Question) []string {
	return each(questions, func(q Question) string { return q.Name })
}

// softwareQuestions are those of every builtin job on every site.
func softwareQuestions() []Question {
	return []Question{
		{Name: "modules", Ask: "Modules to load, separated by spaces", Kind: AskWords, Quiet: true},
		{Name: "conda", Ask: "A conda environment to activate: its name or folder", Kind: AskPath, Quiet: true},
		{Name: "venv", Ask: "A Python virtual environment to activate: its folder", Kind: AskPath, Quiet: true},
		{Name: "container", Ask: "An Apptainer or Singularity image to run in", Kind: AskPath, Quiet: true},
	}
}

// ScriptQuestions are what may be chosen for one run of a script that tunctl has not written,
// where the scheduler has a word for it.
func ScriptQuestions() []Question {
	return []Question{
		{Name: "hours", Ask: "How many hours should the job last?", Kind: AskHours},
		{Name: "gpus", Ask: "How many GPUs?", Kind: AskNumber},
		{Name: "cpus", Ask: "How many CPU cores?", Kind: AskNumber, Min: 1},
		{Name: "memory", Ask: "How much memory?", Kind: AskMemory},
		{Name: "nodes", Ask: "How many nodes?", Kind: AskNumber, Min: 1},
		{Name: "account", Ask: "Which account is charged?", Kind: AskWord},
		{Name: "project", Ask: "Which project is charged?", Kind: AskWord},
		{Name: "partition", Ask: "Which partition?", Kind: AskWord},
		{Name: "queue", Ask: "Which queue?", Kind: AskWord},
		{Name: "qos", Ask: "Which QoS?", Kind: AskWord},
	}
}

// RunQuestions are what may be chosen for one run of the session. The site is that of its
// host, which only a builtin job needs.
func (s *Session) RunQuestions(site Site) []Question {
	if s.Builtin() == "" {
		return ScriptQuestions()
	}
	return site.allQuestions(s.Builtin())
}

// CheckChoices returns the user's choices in their normal form, or which of them is invalid.
func CheckChoices(questions []Question, choices api.Choices) (api.Choices, error) {
	checked := api.Choices{}
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		q, ok := questionNamed(questions, name)
		if !ok {
			return nil, unknownChoice(name, questions)
		}
		text, err := q.Check(choices[name])
		if err != nil {
			return nil, api.Errorf(api.CodeUsage, "%w", err).WithHint("%s", q.Ask)
		}
		checked[name] = text
	}
	return checked, nil
}

func unknownChoice(name string, questions []Question) error {
	names := questionNames(questions)
	hint := strings.TrimSpace(didYouMean(name, names) + " available: " + strings.Join(names, ", "))
	return api.Errorf(api.CodeUsage, "%q is nothing that can be chosen for this session", name).WithHint("%s", hint)
}

// Listed are all valid answers of a question, if they can be listed: those of a choice, and
// the queues and types of GPUs that the site's file names.
func (s *Site) Listed(q Question) []string {
	switch {
	case len(q.Choices) > 0:
		return q.Choices
	case q.Kind == AskQueue:
		return each(s.Queues, func(q Queue) string { return q.Name })
	case q.Name == gpuTypeQuestion:
		return unique(slices.Concat(each(s.Queues, func(q Queue) []string { return q.GPUTypes })...))
	}
	return nil
}
