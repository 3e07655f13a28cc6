package configs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// jobWith is a job with answers to the required questions of a site's job that have no default.
func jobWith(s Site, with map[string]string) *Job {
	j := &Job{App: "jupyter", Name: "jupyter", Site: s, Answers: map[string]string{}}
	for _, q := range j.Questions() {
		if q.Required && q.Default == "" {
			j.Answers[q.Name] = map[QuestionKind]string{AskPath: "/work/x", AskChoice: strings.Join(q.Choices[:min(1, len(q.Choices))], "")}[q.Kind]
			if j.Answers[q.Name] == "" {
				j.Answers[q.Name] = "abc"
			}
		}
	}
	for name, value := range with {
		j.Answers[name] = value
	}
	return j
}

// routesGPUs are sites where a job with GPUs need name no queue: the directives of the file do, or the scheduler chooses one. Sources:
// NCAR's and ETH's guides ("casper" routes to nvgpu; --gpus=1), KAUST's (--gres=gpu:v100:1), Isambard's (--gpus=1), Sherlock's, which its file names.
var routesGPUs = []string{"casper", "euler", "ibex", "isambard", "sherlock"}

// TestSiteGPUs has a job with a GPU on each site: its directives name a queue with GPUs by the site's own file, or the error
// says which has some, or the file says that it is not known.
func TestSiteGPUs(t *testing.T) {
	for _, s := range builtinSites(t) {
		if _, ok := questionNamed(s.Questions, gpusQuestion); !ok || s.Generic() {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			j := jobWith(s, map[string]string{"gpus": "1"})
			_, err := j.Script()
			if err != nil {
				if !strings.Contains(api.HintOf(err), "choose another queue: set") {
					t.Errorf("%v (%s)", err, api.HintOf(err))
				}
				return
			}
			answers, _ := j.answers()
			ask, _ := s.queueQuestion()
			queue, listed := find(s.Queues, func(q Queue) bool { return q.Name == answers[ask.Name] })
			unsure := slices.ContainsFunc(s.Unsure, func(u string) bool { return strings.HasPrefix(u, "gpus:") })
			hasGPUs := listed && (queue.GPUs > 0 || len(queue.GPUTypes) > 0 || queue.CPUsPerGPU > 0 || strings.Contains(queue.About, "GPU"))
			if !hasGPUs && !unsure && !slices.Contains(routesGPUs, s.Name) {
				t.Errorf("gpus=1 asks for queue %q, of which the file does not say that it has GPUs", answers[ask.Name])
			}
		})
	}
}

// TestSiteCPUsPerGPU has a job with GPUs on each site: it asks for a share of the node's cores with each, or the file says that
// the share is not known. Where the scheduler gives cores with a GPU by itself, the job names none.
func TestSiteCPUsPerGPU(t *testing.T) {
	for _, s := range builtinSites(t) {
		if _, ok := questionNamed(s.Questions, gpusQuestion); !ok || s.Generic() {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			with := map[string]string{"gpus": "2"}
			ask, _ := s.queueQuestion()
			if queue, ok := find(s.Queues, func(q Queue) bool { return q.GPUs > 1 || q.CPUsPerGPU > 0 }); ok && ask.GPUDefault == "" {
				with[ask.Name] = queue.Name
			}
			asks := func(cpus string) (answer, directives string) {
				if cpus != "" {
					with["cpus"] = cpus
				}
				j := jobWith(s, with)
				answers, err := j.answers()
				if err != nil {
					t.Fatalf("%v (%s)", err, api.HintOf(err))
				}
				lines, err := j.directives(answers)
				if err != nil {
					t.Fatal(err)
				}
				return answers["cpus"], strings.Join(lines, "\n")
			}
			got, _ := asks("")
			_, few := asks("901")
			_, many := asks("902")
			cpus, _ := questionNamed(s.Questions, cpusQuestion)
			unsure := slices.ContainsFunc(s.Unsure, func(u string) bool {
				return strings.HasPrefix(u, "defaults:") && strings.Contains(u, "cores go with a GPU")
			})
			if share := got != cpus.Default; few != many && share == unsure {
				t.Errorf("two GPUs get %s cores, a share: %t; the file says that the share is not known: %t", got, share, unsure)
			}
		})
	}
}

func TestQueueShare(t *testing.T) {
	text := `title = "T"
scheduler = "slurm"
queue.must = { gpus = 4, cpus_per_gpu = 12, cores = 64 }
queue.node = { gpus = 4, cores = 64 }
queue.half = { cores = 64, about = "GPUs" }
question.partition = { ask = "Which?", kind = "queue" }
question.gpus      = { ask = "How many?", kind = "number", default = 0 }
question.gpu_type  = { ask = "Which?", default = "a100" }
question.cpus      = { ask = "How many?", kind = "number", default = 2, gpu_default = "9" }
job.directives     = ["--gres=gpu:{{.gpu_type}}:{{.gpus}}"]
`
	s, err := parseSite("t.toml", "t", []byte(text), func(string) (Site, bool) { return Site{}, false })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, partition, gpus, kind, cpus, want string
	}{
		{"what the queue wants", "must", "2", "", "", "24"},
		{"the share of a node", "node", "2", "", "", "32"},
		{"the user's word", "node", "2", "", "3", "3"},
		{"no share of a node whose GPUs are not known", "half", "2", "", "", "18"},
		{"the site's default for each GPU", "", "3", "", "", "27"},
		{"a part of a GPU", "", "1", "a100_1g.5gb", "", "2"},
		{"no GPU", "node", "0", "", "", "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := map[string]string{"partition": c.partition, "gpus": c.gpus, "gpu_type": c.kind, "cpus": c.cpus}
			maps.DeleteFunc(with, func(_, value string) bool { return value == "" })
			if answers, err := jobWith(s, with).answers(); err != nil || answers["cpus"] != c.want {
				t.Errorf("%q cores, %v; want %s", answers["cpus"], err, c.want)
			}
		})
	}
	with := map[string]string{"partition": "must", "gpus": "2", "cpus": "3"}
	if _, err := jobWith(s, with).answers(); err == nil {
		t.Error("fewer cores than the queue wants are accepted")
	}
}

func siteNamed(t *testing.T, name string) Site {
	t.Helper()
	s, err := builtinSites(t).Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSiteCost(t *testing.T) {
	for _, c := range []struct {
		site string
		u    Usage
		want string
	}{
		{"archer2", Usage{Queues: []string{"standard", "standard"}}, "2 node-hours: whole nodes are charged (256 core-hours)"},
		{"archer2", Usage{Cores: 1, Queues: []string{"serial", "serial"}}, "at least 2 core-hours"},
		{"perlmutter", Usage{GPUs: 4, Queues: []string{"interactive"}}, "2 node-hours: whole nodes are charged (8 GPU-hours)"},
		{"frontier", Usage{Queues: []string{"batch"}}, "2 node-hours: whole nodes are charged"},
		{"stampede3", Usage{Cores: 1, Nodes: 1, Queues: []string{"skx-dev"}}, "2 node-hours: whole nodes are charged (96 core-hours)"},
		{"anvil", Usage{Cores: 2, Queues: []string{"wholenode"}}, "2 node-hours: whole nodes are charged (256 core-hours)"},
		{"anvil", Usage{Cores: 2, Queues: []string{"shared"}}, "at least 4 core-hours"},
		{"anvil", Usage{Cores: 32, GPUs: 1, Queues: []string{"gpu"}}, "at least 2 GPU-hours, 64 core-hours"},
		{"jsc", Usage{Cores: 2}, "2 node-hours: whole nodes are charged"},
		{"polaris", Usage{Cores: 1, Nodes: 2, Queues: []string{"debug"}}, "4 node-hours: whole nodes are charged (128 core-hours)"},
		{"cirrus", Usage{Cores: 4, Queues: []string{"standard"}}, "at least 8 core-hours"},
		{"slurm", Usage{Cores: 4, Exclusive: true, Nodes: 1}, "2 node-hours: whole nodes are charged"},
		{"aspire2a", Usage{Cores: 2, GPUs: 1}, "128 SU for 2 GPU-hours, 4 SU for 4 core-hours"},
	} {
		s := siteNamed(t, c.site)
		c.u.Time = 2 * time.Hour
		if got := s.Cost(c.u); got != c.want {
			t.Errorf("%s, %+v: %q, want %q", c.site, c.u, got, c.want)
		}
	}
}

func TestQueueNoBatch(t *testing.T) {
	text := "title = \"T\"\nscheduler = \"slurm\"\nqueue.inter = { batch = false }\nqueue.long = { limit = \"48h\" }\n" +
		"question.partition = { ask = \"Which?\", kind = \"queue\", default = \"inter\" }\n"
	s, err := parseSite("t.toml", "t", []byte(text), func(string) (Site, bool) { return Site{}, false })
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&Job{App: "jupyter", Name: "jupyter", Site: s}).Script()
	if err == nil || !strings.Contains(err.Error(), "queue inter takes no batch jobs") || !strings.Contains(api.HintOf(err), `set partition to "long"`) {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
}
