package configs

import (
	"maps"
	"slices"
	"strings"

	"tunctl/internal/api"
)

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
