package submit

import (
	"errors"
	"slices"
	"testing"

	"tunctl/configs"
	"tunctl/internal/api"
)

func code(err error) api.Code {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestChoicesAreCheckedAsSoonAsTheSiteIsKnown(t *testing.T) {
	sites, err := configs.LoadSites("", "")
	if err != nil {
		t.Fatal(err)
	}
	builtin := configs.Session{Name: "nb", Host: "hpc", Submit: "builtin:jupyter"}
	script := configs.Session{Name: "nb", Host: "hpc", Submit: "~/nb.sh"}
	for name, tt := range map[string]struct {
		source Source
		with   api.Choices
		code   api.Code
	}{
		"of a builtin job":               {Source{Session: builtin, Sites: sites, Scheduler: "slurm"}, api.Choices{"hours": "2"}, ""},
		"no such choice":                 {Source{Session: builtin, Sites: sites, Scheduler: "slurm"}, api.Choices{"hour": "2"}, api.CodeUsage},
		"no such value":                  {Source{Session: builtin, Sites: sites, Scheduler: "slurm"}, api.Choices{"hours": "many"}, api.CodeUsage},
		"before the first connection":    {Source{Session: builtin, Sites: sites}, api.Choices{"hour": "many"}, ""},
		"of a script":                    {Source{Session: script, Scheduler: "slurm"}, api.Choices{"qos": "high"}, ""},
		"without a word for the choice":  {Source{Session: script, Scheduler: "pbs"}, api.Choices{"qos": "high"}, api.CodeUsage},
		"a script on an unknown cluster": {Source{Session: script}, api.Choices{"qos": "high"}, ""},
	} {
		p, err := tt.source.Plan(tt.with)
		if code(err) != tt.code || err == nil && len(p.With) != len(tt.with) {
			t.Errorf("%s: %v, %v", name, p.With, err)
		}
	}
}

func TestChoicesAreCheckedAgainOnlyAfterTheSettingsChanged(t *testing.T) {
	source := &Source{Session: configs.Session{Name: "nb", Submit: "~/nb.sh"}, Scheduler: "slurm"}
	p, err := source.Plan(api.Choices{"hours": "02"})
	if err != nil || !p.checked {
		t.Fatalf("%+v, %v", p, err)
	}
	if same := *source; !p.For(&same).checked {
		t.Error("with equal settings they are checked again")
	}
	other := *source
	other.Session.Args = []string{"--mem=1G"}
	if q := p.For(&other); q.checked || q.source != &other || q.With["hours"] != p.With["hours"] {
		t.Errorf("with other settings: %+v", q)
	}
	if q := (Plan{}).For(source); q.checked || q.With != nil {
		t.Errorf("without choices: %+v", q)
	}
}

func TestAJobHasTheChoicesAndWhatTheConfigHasForTheRest(t *testing.T) {
	source := &Source{Session: configs.Session{Name: "nb", Submit: "~/nb.sh", With: map[string]string{"gpus": "1", "hours": "3"}}, Scheduler: "slurm"}
	values := source.Values(api.Choices{"gpus": "2"})
	if values["gpus"] != "2" || values["hours"] != "3" {
		t.Errorf("%v", values)
	}
	options := source.Options()
	i := slices.IndexFunc(options, func(o api.Option) bool { return o.Name == "gpus" })
	if i < 0 || options[i].Value != "1" {
		t.Errorf("%+v", options)
	}
}

func TestAPermissionEndsWithTheLastCommandThatGaveIt(t *testing.T) {
	var p Permit
	p.Grant("one", 600e9)
	p.Grant(Assistant, 3600e9)
	if now := p.given; !p.Live(now) || !p.ByPerson(now) || p.ByPerson(now.Add(601e9)) {
		t.Error("an assistant's permission is a person's, or a person's is none")
	}
	if !p.Revoke(Assistant) || p.Revoke("nobody") || p.Live(p.given.Add(601e9)) || p.IsZero() {
		t.Errorf("%+v", p)
	}
}
