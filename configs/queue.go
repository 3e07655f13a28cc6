package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Queue is a queue or partition of a site with its limits. A queue that is not listed can
// be used, too, without checks.
type Queue struct {
	Name  string `json:"name"`
	Limit Period `json:"limit,omitempty"` // the longest that a job may run
	GPUs  int    `json:"gpus,omitempty"`  // of one node; 0: not known
	// NoGPUs: its nodes have none.
	NoGPUs bool `json:"noGpus,omitempty"`
	// CPUsPerGPU is how many cores a job must ask for with each GPU; 0: any number.
	CPUsPerGPU int `json:"cpusPerGpu,omitempty"`
	// GPUTypes are the names of the types of its GPUs, as the scheduler knows them.
	GPUTypes []string `json:"gpuTypes,omitempty"`
	About    string   `json:"about,omitempty"`
}

// Limits describes the limits of the queue.
func (q *Queue) Limits() string {
	var parts []string
	if q.Limit > 0 {
		parts = append(parts, "at most "+q.Limit.words())
	}
	if q.GPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs per node", q.GPUs))
	}
	if q.NoGPUs {
		parts = append(parts, "no GPUs")
	}
	if q.CPUsPerGPU > 0 {
		parts = append(parts, fmt.Sprintf("%d cores for each GPU", q.CPUsPerGPU))
	}
	if len(q.GPUTypes) > 0 {
		parts = append(parts, "GPU types "+strings.Join(q.GPUTypes, ", "))
	}
	if q.About != "" {
		parts = append(parts, q.About)
	}
	return strings.Join(parts, ", ")
}

func (q *Queue) fields() []field {
	return []field{
		{"limit", `"48h"`, period(&q.Limit, 0)},
		{"gpus", `4`, func(in *input) {
			number(&q.GPUs, 0, 1000)(in)
			q.NoGPUs = q.GPUs == 0
		}},
		{"cpus_per_gpu", `12`, number(&q.CPUsPerGPU, 0, 1000)},
		{"gpu_types", `["a100", "v100"]`, texts(&q.GPUTypes, rule{goodWord.MatchString, "is not one word without spaces or quotes"})},
		{"about", `"for tests"`, text(&q.About)},
	}
}

// checkQueue reports answers that exceed the limits of the queue.
func (s *Site) checkQueue(answers map[string]string) []answerProblem {
	queue, ok := s.queueOf(answers)
	if !ok {
		return nil
	}
	problems := queue.checkGPUType(answers)
	for _, q := range s.Questions {
		switch {
		case q.Kind == AskHours && queue.Limit > 0:
			if d, err := time.ParseDuration(answers[q.Name] + "h"); err == nil && d > time.Duration(queue.Limit) {
				hint := "no queue of this site allows jobs that long"
				if longer := s.otherQueues(func(o *Queue) bool { return o.Limit == 0 || time.Duration(o.Limit) >= d }); longer != "" {
					hint = "ask for less, or " + longer
				}
				problems = append(problems, answerProblem{q.Name, configError(hint, "%s = %s is more than queue %s allows (%s)", q.Name, answers[q.Name], queue.Name, queue.Limit.words())})
			}
		case q.Name == gpusQuestion:
			if err := s.checkGPUs(&queue, answers); err != nil {
				problems = append(problems, answerProblem{q.Name, err})
			}
		}
	}
	return problems
}

// checkGPUs reports a number of GPUs that the queue does not have, or that needs more cores.
func (s *Site) checkGPUs(queue *Queue, answers map[string]string) error {
	n, _ := strconv.Atoi(answers[gpusQuestion])
	cpus, _ := strconv.Atoi(answers[cpusQuestion])
	switch {
	case n == 0:
	case queue.NoGPUs:
		others := s.otherQueues(func(o *Queue) bool { return !o.NoGPUs })
		return configError(cmp.Or(others, "choose a queue that has some, as the guide of the site says"), "gpus = %d, but queue %s has no GPUs", n, queue.Name)
	case queue.GPUs > 0 && n > queue.GPUs:
		return configError(fmt.Sprintf("ask for at most %d, or choose another queue", queue.GPUs), "gpus = %d is more than a node of queue %s has (%d)", n, queue.Name, queue.GPUs)
	case cpus > 0 && cpus < n*queue.CPUsPerGPU:
		return configError(fmt.Sprintf("set cpus = %d", n*queue.CPUsPerGPU), "gpus = %d in queue %s needs %d cores, and cpus = %d", n, queue.Name, n*queue.CPUsPerGPU, cpus)
	}
	return nil
}

// otherQueues says how to choose a queue that fits; empty if none does.
func (s *Site) otherQueues(fits func(*Queue) bool) string {
	var names []string
	for _, q := range s.Queues {
		if fits(&q) {
			names = append(names, q.Name)
		}
	}
	i := slices.IndexFunc(s.Questions, func(q Question) bool { return q.Kind == AskQueue })
	if len(names) == 0 || i < 0 {
		return ""
	}
	return fmt.Sprintf("choose another queue: set %s to %s", s.Questions[i].Name, alternatives(names))
}

// The names of the questions for cores, and for the number and the type of GPUs, on every site.
const (
	cpusQuestion    = "cpus"
	gpusQuestion    = "gpus"
	gpuTypeQuestion = "gpu_type"
)

// checkGPUType reports a type of GPU that the queue does not have.
func (q *Queue) checkGPUType(answers map[string]string) []answerProblem {
	wanted := answers[gpuTypeQuestion]
	if len(q.GPUTypes) == 0 || wanted == "" || answers[gpusQuestion] == "0" || slices.Contains(q.GPUTypes, wanted) {
		return nil
	}
	return []answerProblem{{gpuTypeQuestion, configError(fmt.Sprintf("set gpu_type to %s, or choose another queue", alternatives(q.GPUTypes)),
		"queue %s has no GPU of type %q", q.Name, wanted)}}
}

// queueOf is the queue in the answers, if its limits are known.
func (s *Site) queueOf(answers map[string]string) (Queue, bool) {
	for _, q := range s.Questions {
		if q.Kind != AskQueue {
			continue
		}
		if i := slices.IndexFunc(s.Queues, func(x Queue) bool { return x.Name == answers[q.Name] }); i >= 0 {
			return s.Queues[i], true
		}
	}
	return Queue{}, false
}
