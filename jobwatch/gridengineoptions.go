package jobwatch

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// geChoices are qsub's words for choices. What sites call memory and GPUs differs, and a
// number of slots needs the name of a parallel environment: only the number that the job has
// already is changed. Grid Engine has no word for nodes and QoS.
var geChoices = map[string]choiceWord{
	"hours":     hoursAs(resourceWord("h_rt")),
	"cpus":      geSlots,
	"memory":    geResource("h_vmem", "mem_free", "mem", "mem_req", "rmem", "h_rss"),
	"gpus":      geResource(geGPUs...),
	"account":   optionWord("A"),
	"project":   optionWord("P"),
	"partition": optionWord("q"),
	"queue":     optionWord("q"),
}

// geGPUs are the names that sites have for GPUs.
var geGPUs = []string{"gpu", "gpus", "ngpus", "gpu_card"}

// geSlots changes the number of slots of the job's parallel environment.
func geSlots(c chosen) (option, error) {
	pe, ok := lastOption(c.given, "pe")
	name, _, _ := strings.Cut(pe, " ")
	if !ok || name == "" {
		return option{}, c.refuse("the job has no parallel environment", "add `-pe NAME 1` to the script; `qconf -spl` lists their names")
	}
	return option{"pe", name + " " + c.value}, nil
}

// geResource changes the one of these resources that the job has.
func geResource(names ...string) choiceWord {
	return func(c chosen) (option, error) {
		for _, name := range names {
			if _, ok := lastOption(c.given, "-l "+name); ok {
				return option{"l", name + "=" + c.value}, nil
			}
		}
		return option{}, c.refuse("every site has its own name for that", fmt.Sprintf("add `-l %s=…`, or what it is called there, to the script", names[0]))
	}
}

// geDemand: the slots of a parallel environment may all be on nodes of their own, unless its
// name says that they are on one. A resource for GPUs counts for each slot on most sites, but
// not on all: it is taken for the whole job.
func geDemand(g givenOptions) demand {
	slots := func(text string) (int, bool) {
		_, n, _ := strings.Cut(text, " ")
		return number(n)
	}
	d := demand{jobs: g.number("t", 1, arrayJobs), most: g.number("pe", 1, func(text string) (int, bool) {
		if oneNode.MatchString(text) {
			return 1, true
		}
		return slots(text)
	})}
	d.Time = time.Duration(g.number("-l h_rt", 0, seconds(parseClockTime))) * time.Second
	d.CPUs = g.number("pe", 1, slots)
	for _, name := range geGPUs {
		d.GPUs = max(d.GPUs, g.number("-l "+name, 0, number))
	}
	return d
}

// oneNode matches the names that sites give to parallel environments of one node.
var oneNode = regexp.MustCompile(`(?i)^(?:smp|shm|shared|omp|openmp|thread|multi[-_]?(?:core|thread)|one[-_]?node|single)`)
