package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestChoicesAreCheckedAsAnswersAre(t *testing.T) {
	for name, tt := range map[string]struct {
		choices, want api.Choices
		problem, hint string
	}{
		"valid":      {api.Choices{"hours": " 2 ", "partition": "gpu"}, api.Choices{"hours": "2", "partition": "gpu"}, "", ""},
		"none":       {nil, api.Choices{}, "", ""},
		"unknown":    {api.Choices{"colour": "red"}, nil, `"colour" is nothing`, "available: hours, gpus"},
		"similar":    {api.Choices{"gpu": "1"}, nil, `"gpu" is nothing`, `did you mean "gpus"?`},
		"unsafe":     {api.Choices{"partition": "a b; rm"}, nil, "one word without spaces", "Which partition?"},
		"few":        {api.Choices{"cpus": "0"}, nil, "at least 1", ""},
		"none given": {api.Choices{"hours": "", "cpus": ""}, api.Choices{"hours": "", "cpus": ""}, "", ""},
		"no hours":   {api.Choices{"duration": " "}, nil, `"duration" is required`, "How long?"},
	} {
		got, err := CheckChoices(append(ScriptQuestions(), Question{Name: "duration", Ask: "How long?", Kind: AskHours, Default: "2"}), tt.choices)
		if tt.problem == "" {
			if err != nil || got.String() != tt.want.String() {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodeUsage || !strings.Contains(e.Message, tt.problem) || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

func TestTheAnswersThatASiteNamesAreListed(t *testing.T) {
	s := Site{Queues: []Queue{{Name: "short", GPUTypes: []string{"a100"}}, {Name: "long", GPUTypes: []string{"a100", "v100"}}}}
	for want, q := range map[string]Question{
		"short long": {Name: "partition", Kind: AskQueue},
		"a100 v100":  {Name: "gpu_type"},
		"yes no":     {Name: "shared", Kind: AskChoice, Choices: []string{"yes", "no"}},
		"":           {Name: "account"},
	} {
		if got := strings.Join(s.Listed(q), " "); got != want {
			t.Errorf("%s: %q, want %q", q.Name, got, want)
		}
	}
}

func TestABuiltinJobHasTheQuestionsOfItsSite(t *testing.T) {
	site := Site{Questions: []Question{{Name: "image"}}}
	own, builtin := Session{Submit: "~/x.sh"}, Session{Submit: "builtin:jupyter"}
	has := func(list []Question, name string) bool {
		return slices.ContainsFunc(list, func(q Question) bool { return q.Name == name })
	}
	if q := builtin.RunQuestions(site); !has(q, "image") || !has(q, "venv") || has(q, "qos") {
		t.Errorf("a builtin job has %v", q)
	}
	if q := own.RunQuestions(site); has(q, "image") || !has(q, "qos") {
		t.Errorf("a script has %v", q)
	}
}
