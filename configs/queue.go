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
	// CPUsPerGPU is how many cores a job must ask for with each GPU; 0: any number, and by default a share of Cores.
	CPUsPerGPU int `json:"cpusPerGpu,omitempty"`
	// GPUTypes are the names of the types of its GPUs, as the scheduler knows them.
	GPUTypes []string `json:"gpuTypes,omitempty"`
	// WholeNodes says whether jobs get whole nodes; nil: as the site.
	WholeNodes *bool `json:"wholeNodes,omitempty"`
	Cores      int   `json:"cores,omitempty"` // of one node; 0: as the site
	// NoBatch: it takes interactive jobs only, as of salloc.
	NoBatch bool   `json:"noBatch,omitempty"`
	About   string `json:"about,omitempty"`
}

// Limits describes the limits of the queue.
func (q *Queue) Limits() string {
	var parts []string
	add := func(known bool, text string) {
		if known {
			parts = append(parts, text)
		}
	}
	add(q.Limit > 0, "at most "+q.Limit.Words())
	add(q.GPUs > 0, fmt.Sprintf("%d GPUs per node", q.GPUs))
	add(q.NoGPUs, "no GPUs")
	add(q.CPUsPerGPU > 0, fmt.Sprintf("%d cores for each GPU", q.CPUsPerGPU))
	add(len(q.GPUTypes) > 0, "GPU types "+strings.Join(q.GPUTypes, ", "))
	add(q.WholeNodes != nil && *q.WholeNodes, "whole nodes")
	add(q.Cores > 0, fmt.Sprintf("%d cores per node", q.Cores))
	add(q.NoBatch, "no batch jobs")
	add(q.About != "", q.About)
	return strings.Join(parts, ", ")
}

func newQueue(name string) Queue { return Queue{Name: name} }

func (q *Queue) fields() []field {
	return []field{
		{"limit", `"48h"`, period(&q.Limit, 0)},
		{"gpus", `4`, func(in *input) {
			number(&q.GPUs, 0, 1000)(in)
			q.NoGPUs = q.GPUs == 0
		}},
		{"cpus_per_gpu", `12`, number(&q.CPUsPerGPU, 0, 1000)},
		{"gpu_types", `["a100", "v100"]`, texts(&q.GPUTypes, rule{goodWord.MatchString, "is not one word without spaces or quotes"})},
		{"whole_nodes", `true`, choice(&q.WholeNodes)},
		{"cores", `128`, number(&q.Cores, 0, 10000)},
		{"batch", `false`, func(in *input) {
			takes := true
			boolean(&takes)(in)
			q.NoBatch = !takes
		}},
		{"about", `"for tests"`, text(&q.About)},
	}
}

// checkQueue reports answers that exceed the limits of the queue, if these are known.
func (s *Site) checkQueue(answers map[string]string) []answerProblem {
	ask, _ := s.queueQuestion()
	queue, ok := find(s.Queues, func(q Queue) bool { return q.Name == answers[ask.Name] })
	if !ok {
		return nil
	}
	var problems []answerProblem
	add := func(answer, hint, format string, args ...any) {
		problems = append(problems, answerProblem{answer, configError(hint, format, args...)})
	}
	if queue.NoBatch {
		add(ask.Name, s.OtherQueues(func(o Queue) bool { return !o.NoBatch }), "queue %s takes no batch jobs, and a session's job is one", queue.Name)
	}
	wanted, types := answers[gpuTypeQuestion], queue.GPUTypes
	if wanted != "" && answers[gpusQuestion] != "0" && len(types) > 0 && !slices.Contains(types, wanted) {
		add(gpuTypeQuestion, fmt.Sprintf("set gpu_type to %s, or choose another queue", alternatives(types)),
			"queue %s has no GPU of type %q", queue.Name, wanted)
	}
	for _, q := range s.Questions {
		d, err := time.ParseDuration(answers[q.Name] + "h")
		if q.Kind == AskHours && err == nil && queue.Limit > 0 && d > time.Duration(queue.Limit) {
			hint := "no queue of this site allows jobs that long"
			if longer := s.OtherQueues(func(o Queue) bool { return o.Limit == 0 || time.Duration(o.Limit) >= d }); longer != "" {
				hint = "ask for less, or " + longer
			}
			add(q.Name, hint, "%s = %s is more than queue %s allows (%s)", q.Name, answers[q.Name], queue.Name, queue.Limit.Words())
		}
	}
	gpus, _ := strconv.Atoi(answers[gpusQuestion])
	cpus, _ := strconv.Atoi(answers[cpusQuestion])
	switch {
	case gpus == 0:
	case queue.NoGPUs:
		others := s.OtherQueues(func(o Queue) bool { return !o.NoGPUs })
		add(gpusQuestion, cmp.Or(others, "choose a queue that has some, as the guide of the site says"),
			"gpus = %d, but queue %s has no GPUs", gpus, queue.Name)
	case queue.GPUs > 0 && gpus > queue.GPUs:
		add(gpusQuestion, fmt.Sprintf("ask for at most %d, or choose another queue", queue.GPUs),
			"gpus = %d is more than a node of queue %s has (%d)", gpus, queue.Name, queue.GPUs)
	case cpus > 0 && cpus < gpus*queue.CPUsPerGPU:
		add(gpusQuestion, fmt.Sprintf("set cpus = %d", gpus*queue.CPUsPerGPU),
			"gpus = %d in queue %s needs %d cores, and cpus = %d", gpus, queue.Name, gpus*queue.CPUsPerGPU, cpus)
	}
	return problems
}

// setCPUs gives a job with GPUs a share of its node's cores for each: fewer starve the GPUs, and the share is usually
// charged anyway. The queue knows it, or the gpu_default of the question does; a GPU of another type may be a part of one.
func (s *Site) setCPUs(answers map[string]string) {
	ask, _ := s.queueQuestion()
	queue, _ := find(s.Queues, func(q Queue) bool { return q.Name == answers[ask.Name] })
	gpus, _ := strconv.Atoi(answers[gpusQuestion])
	cpus, _ := strconv.Atoi(answers[cpusQuestion])
	question, _ := questionNamed(s.Questions, cpusQuestion)
	share, _ := strconv.Atoi(question.GPUDefault)
	if kind, _ := questionNamed(s.Questions, gpuTypeQuestion); kind.Default != "" && kind.Default != answers[gpuTypeQuestion] {
		share = 0
	}
	ofNode := queue.Cores / cmp.Or(queue.GPUs, queue.Cores+1) // 0 unless both are known
	if wanted := gpus * cmp.Or(queue.CPUsPerGPU, ofNode, share); wanted > cpus {
		answers[cpusQuestion] = strconv.Itoa(wanted)
	}
}

// OtherQueues says how to choose a queue that fits; empty if none does.
func (s *Site) OtherQueues(fits func(Queue) bool) string {
	others := slices.DeleteFunc(slices.Clone(s.Queues), func(q Queue) bool { return !fits(q) })
	ask, ok := s.queueQuestion()
	if len(others) == 0 || !ok {
		return ""
	}
	return fmt.Sprintf("choose another queue: set %s to %s", ask.Name, alternatives(each(others, func(q Queue) string { return q.Name })))
}

// queueQuestion is the question for a queue, if the site has one.
func (s *Site) queueQuestion() (Question, bool) {
	return find(s.Questions, func(q Question) bool { return q.Kind == AskQueue })
}

// The names of the questions for cores, and for the number and the type of GPUs, on every site.
const (
	cpusQuestion    = "cpus"
	gpusQuestion    = "gpus"
	gpuTypeQuestion = "gpu_type"
)
