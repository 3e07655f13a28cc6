package configs

import (
	"strings"
	"testing"

	"tunctl/internal/api"
)

func sdumontJob(t *testing.T, answers map[string]string) *Job {
	t.Helper()
	site, err := builtinSites(t).Find("sdumont")
	if err != nil {
		t.Fatal(err)
	}
	answers["folder"] = "/scratch/p/ann"
	return &Job{App: "jupyter", Name: "jupyter", Site: site, Answers: answers}
}

func TestAQueuesLimitsAreCheckedBeforeAnythingIsSubmitted(t *testing.T) {
	for _, c := range []struct {
		queue, hours, gpus string
		message, hint      string
	}{
		{"nvidia_dev", "0.25", "1", "", ""},
		{"nvidia_dev", "0.5", "1", "hours = 0.5 is more than queue nvidia_dev allows (20 min)", `ask for less, or choose another queue: set partition to "nvidia", "nvidia_small"`},
		{"nvidia_small", "1", "2", "", ""},
		{"nvidia_small", "2", "1", "allows (1 h)", "sequana_gpu_shared"},
		{"nvidia_long", "800", "1", "allows (744 h)", "no queue of this site allows jobs that long"},
		{"gdl", "2", "8", "", ""},
		{"sequana_gpu_shared", "2", "8", "gpus = 8 is more than a node of queue sequana_gpu_shared has (4)", "at most 4"},
		{"a_new_one", "1000", "16", "", ""}, // nothing is known about it
	} {
		_, err := sdumontJob(t, map[string]string{"partition": c.queue, "hours": c.hours, "gpus": c.gpus}).Script()
		if c.message == "" {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		e, ok := err.(*api.Error) //nolint:errorlint // the outermost one carries the hint
		if !ok || !strings.Contains(e.Message, c.message) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%+v: %#v", c, err)
		}
	}
}

func TestAJobForGPUsIsNotSubmittedWhereThereAreNone(t *testing.T) {
	for _, c := range []struct {
		site    string
		answers map[string]string
		want    string // of the error; "": none
	}{
		{"lumi", map[string]string{"account": "p", "gpus": "1", "partition": "small"}, "queue small has no GPUs"},
		{"lumi", map[string]string{"account": "p", "gpus": "1"}, ""},
		{"lumi", map[string]string{"account": "p", "gpus": "1", "partition": "small-g"}, ""},
		{"lumi", map[string]string{"account": "p"}, ""},
		{"leonardo", map[string]string{"account": "p", "gpus": "1"}, "queue lrd_all_serial has no GPUs"},
		{"leonardo", map[string]string{"account": "p", "gpus": "1", "partition": "boost_usr_prod"}, ""},
		{"setonix", map[string]string{"account": "p", "gpus": "1", "partition": "work"}, "queue work has no GPUs"},
		{"setonix", map[string]string{"account": "p", "gpus": "1", "partition": "other"}, ""},
		{"sherlock", map[string]string{"gpus": "1", "partition": "normal"}, "queue normal has no GPUs"},
		{"sherlock", map[string]string{"gpus": "1", "partition": "owners"}, ""},
		{"bridges2", map[string]string{"partition": "RM-shared"}, "queue RM-shared has no GPUs"},
		{"bridges2", map[string]string{"partition": "RM-shared", "gpus": "0"}, ""},
		{"gadi", map[string]string{"project": "p", "storage": "scratch/p", "gpus": "1"}, "queue normal has no GPUs"},
		{"gadi", map[string]string{"project": "p", "storage": "scratch/p", "gpus": "2", "queue": "gpuvolta", "cpus": "2"}, "needs 24 cores, and cpus = "},
		{"gadi", map[string]string{"project": "p", "storage": "scratch/p", "gpus": "2", "queue": "gpuvolta", "cpus": "24"}, ""},
	} {
		_, err := siteJob(t, c.site, c.answers).Script()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v: %v", c.site, c.answers, err)
		}
	}
	_, err := siteJob(t, "lumi", map[string]string{"account": "p", "gpus": "1", "partition": "small"}).Script()
	if e, ok := err.(*api.Error); !ok || e.Hint != `choose another queue: set partition to "small-g", "standard-g" or "dev-g"` { //nolint:errorlint // the outermost one carries the hint
		t.Errorf("%#v", err)
	}
}

func TestAJobHasTheDirectivesOfItsSite(t *testing.T) {
	for _, c := range []struct {
		site      string
		answers   map[string]string
		want, not string // in the script
	}{
		{"sherlock", map[string]string{"gpus": "1"}, "#SBATCH --partition=gpu\n", ""},
		{"sherlock", map[string]string{"gpus": "1", "partition": "owners"}, "#SBATCH --partition=owners\n", "--partition=gpu"},
		{"sherlock", nil, "#SBATCH --cpus-per-task=2\n", "--partition"},
		{"myriad", map[string]string{"memory": "4G"}, "#$ -l mem=4G\n", "h_vmem"},
	} {
		script, err := siteJob(t, c.site, c.answers).Script()
		if text := string(script); err != nil || !strings.Contains(text, c.want) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s %v: %v\n%.600s", c.site, c.answers, err, text)
		}
	}
}

func TestAnAnswerIsCheckedAgainstTheQueueThatWasChosenBefore(t *testing.T) {
	j := sdumontJob(t, map[string]string{"partition": "nvidia_dev"})
	hours := Question{Name: "hours", Kind: AskHours}
	if err := j.Answer(hours, "2"); err == nil || !strings.Contains(err.Error(), "allows (20 min)") {
		t.Errorf("two hours in nvidia_dev: %v", err)
	}
	if _, kept := j.Answers["hours"]; kept {
		t.Error("an answer that was refused is kept")
	}
	if err := j.Answer(hours, "0.3"); err != nil || j.Answers["hours"] != "0.3" {
		t.Errorf("%v, %v", err, j.Answers)
	}
}

func TestAQueueTableWithAMistakeIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[queue.a]\nlimit = \"long\"\n": "not a time",
		"[queue.a]\ngpus = \"4\"\n":     "must be a number, not text",
		"[queue.a]\ncpus_per_gpu = 1.5": "must be a number",
		"[queue.a]\ngpus = -1\n":        "must be a number from 0",
		"[queue.a]\nhours = 2\n":        "unknown key",
	} {
		_, err := parseSite("s.toml", "s", []byte("title = \"x\"\n"+text), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestATypeOfGPUThatTheQueueLacksIsAnsweredWithThoseItHas(t *testing.T) {
	site := Site{
		Name: "s", Queues: []Queue{{Name: "gpu", GPUTypes: []string{"a100", "v100"}}, {Name: "cpu"}},
		Questions: []Question{{Name: "partition", Kind: AskQueue}, {Name: "gpus", Kind: AskNumber}, {Name: "gpu_type", Kind: AskWord}},
	}
	for _, c := range []struct {
		queue, gpus, gpu string
		refused          bool
	}{
		{"gpu", "1", "a100", false}, {"gpu", "1", "h100", true}, {"gpu", "0", "h100", false}, {"gpu", "1", "", false}, {"cpu", "1", "h100", false},
	} {
		_, err := (&Job{App: "jupyter", Name: "j", Site: site, Answers: map[string]string{"partition": c.queue, "gpus": c.gpus, "gpu_type": c.gpu}}).Script()
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if e, ok := err.(*api.Error); ok && (!strings.Contains(e.Message, `no GPU of type "h100"`) || !strings.Contains(e.Hint, `"a100" or "v100"`)) { //nolint:errorlint // see above
			t.Errorf("%+v", e)
		}
	}
}
