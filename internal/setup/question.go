package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/term"
)

// asker puts questions to the user at the terminal, if there is one.
type asker struct {
	*term.Terminal
	job   *configs.Job // whose settings NAME=VALUE changes, at any question
	found api.Look     // on the host; empty if it did not look
}

// assignment matches NAME=VALUE, which is neither an account, a partition nor a path.
var assignment = regexp.MustCompile(`^([a-z][a-z0-9_]*)\s*=(.*)$`)

// changeSetting changes a setting of the job by NAME=VALUE, and reports whether the text is
// one. The settings are known with the site.
func (a *asker) changeSetting(text string) bool {
	words := assignment.FindStringSubmatch(text)
	if words == nil || a.job.Site.Name == "" {
		return false
	}
	q, known := a.job.Question(words[1])
	if !known {
		names := lists.Map(a.job.Questions(), func(q configs.Question) string { return q.Name })
		a.Say("%q is not a setting of the job; the settings are: %s", text, strings.Join(names, ", "))
	} else if err := a.answerSetting(q, words[2]); err != nil {
		a.Say("%v", err)
	} else {
		a.Say("%s = %s", q.Name, a.job.Answers[q.Name])
	}
	return true
}

// answerSetting answers a question of the job, if the host has what the answer names.
func (a *asker) answerSetting(q configs.Question, text string) error {
	names := lists.Map(a.found.Partitions, func(p api.Partition) string { return p.Name })
	for name := range strings.SplitSeq(text, ",") {
		if isPartition(q) && name != "" && len(names) > 0 && !slices.Contains(names, strings.TrimSpace(name)) {
			return fmt.Errorf("there is no %s %q; there are: %s", q.Name, name, strings.Join(names, ", "))
		}
	}
	if err := a.tooMuch(map[string]string{q.Name: text}); err != nil {
		return err
	}
	return a.job.Answer(q, text)
}

// most is the largest number that the chosen partition has for a setting; 0 is unknown.
func (a *asker) most(setting string) float64 {
	usage, hours := a.found.Cluster, 0.0
	for _, p := range a.found.Partitions {
		if p.Name == cmp.Or(a.job.Answers["partition"], a.job.Answers["queue"]) {
			hours = math.Floor(float64(p.LimitSeconds)/36) / 100
			if p.CPUs > 0 {
				usage = p.PartitionUsage
			}
		}
	}
	return map[string]float64{"hours": hours, "cpus": float64(usage.NodeCPUs), "gpus": float64(usage.GPUs), "memory": float64(usage.NodeMB)}[setting]
}

// tooMuch returns which of some settings is more than the chosen partition has, as far as is known.
func (a *asker) tooMuch(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		number, err := strconv.ParseFloat(settings[name], 64)
		if most := a.most(name); err == nil && most > 0 && number > most {
			return fmt.Errorf("%s = %s is not possible there: at most %g", name, settings[name], most)
		}
	}
	return nil
}

// offer is a numbered answer.
type offer struct {
	value  string
	label  string // what is shown for the value, if not the value
	about  string
	source string // where it was found
}

// maxOffers is how many answers are shown for one question.
const maxOffers = 12

// ask asks a question until take accepts the answer. Enter is the first offer or, without
// offers, the default. NAME=VALUE changes a setting of the job, and the question stays open.
// Without a user the answer is the default, if there is one.
func (a *asker) ask(ctx context.Context, q configs.Question, flag string, offers []offer, take func(answer string) error) error {
	if !a.Interactive {
		if q.Default == "" && q.Required {
			return a.needUser(fmt.Sprintf("the answer to %q", q.Ask), "give it with "+flag)
		}
		return take(q.Default)
	}
	prompt := q.Ask + " "
	if q.Default != "" {
		prompt = fmt.Sprintf("%s [%s] ", q.Ask, q.Default)
	}
	if len(offers) > 0 {
		a.Say("%s", q.Ask)
		a.showOffers(offers)
		prompt = "A number, or any other answer [1]: "
	}
	for {
		text, err := a.readLine(ctx, prompt)
		if err != nil {
			return err
		}
		n, notNumber := strconv.Atoi(cmp.Or(text, "1"))
		switch {
		case a.changeSetting(text):
			continue
		case len(offers) == 0:
			text = cmp.Or(text, q.Default)
		case notNumber == nil && n >= 1 && n <= min(len(offers), maxOffers):
			text = offers[n-1].value
		case notNumber == nil:
			a.Say("No line above has the number %s.", text)
			continue
		case text == "?":
			a.Say("Type the number of a line, or press Enter for the first; Ctrl-C stops.")
			continue
		}
		switch err := take(text); {
		case err == nil:
			return nil
		case text == "":
			a.Say("This needs an answer.") // the question follows again
		default:
			a.Say("%v", err)
			if hint := api.HintOf(err); hint != "" {
				a.Say("%s", hint)
			}
		}
	}
}

// answer is the answer to a question: as given, by the flag of its name, or as the user types.
func (a *asker) answer(ctx context.Context, q configs.Question, given string) (answer string, err error) {
	if given != "" {
		if answer, err = q.Check(given); err != nil {
			return answer, api.Errorf(api.CodeUsage, "%w", err)
		}
		return answer, nil
	}
	err = a.ask(ctx, q, "--"+q.Name, nil, func(text string) (err error) {
		answer, err = q.Check(text)
		return err
	})
	return answer, err
}

// showOffers lists the first answers with their numbers.
func (a *asker) showOffers(offers []offer) {
	shown := offers[:min(len(offers), maxOffers)]
	width := 0
	for _, o := range shown {
		width = max(width, term.TextWidth(cmp.Or(o.label, o.value)))
	}
	for n, o := range shown {
		about := o.about
		if o.source != "" {
			about = strings.TrimLeft(about+" ("+o.source+")", " ")
		}
		line := fmt.Sprintf("%3d) %s  %s", n+1, term.Pad(cmp.Or(o.label, o.value), width), about)
		a.sayWrapped(strings.TrimRight(line, " "), 7)
	}
	if more := len(offers) - len(shown); more > 0 {
		a.Say("     and %d more", more)
	}
}

// sayWrapped says a line, with an indent where it is longer than the terminal is wide.
func (a *asker) sayWrapped(line string, indent int) {
	if width := a.Width(); width > 0 {
		line = strings.Join(term.Wrap(line, width-1, indent), "\n")
	}
	a.Say("%s", line)
}

// readLine shows a question, wrapped if it is longer than a line, and reads the answer.
func (a *asker) readLine(ctx context.Context, prompt string) (string, error) {
	if width := a.Width(); width > 0 && term.TextWidth(prompt) >= width {
		lines := term.Wrap(strings.TrimSpace(prompt), width-1, 0)
		a.Say("%s", strings.Join(lines[:len(lines)-1], "\n"))
		prompt = lines[len(lines)-1] + " "
	}
	text, err := a.ReadLine(ctx, prompt, true)
	return strings.TrimSpace(text), err
}

// needUser is the error for a question without a user to answer it.
func (a *asker) needUser(what, hint string) error {
	if a.Interactive {
		return nil
	}
	return api.Errorf(api.CodeNeedsPerson, "%s is missing, and there is no terminal to ask for it", what).
		WithHint("%s", hint)
}
