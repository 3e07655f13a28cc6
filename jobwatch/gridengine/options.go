package gridengine

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"tunctl/jobwatch/sched"
)

// options are qsub's words for choices. What sites call memory and GPUs differs, and a
// number of slots needs the name of a parallel environment: only the number that the job has
// already is changed. Grid Engine has no word for nodes and QoS.
var options = map[string]sched.PlaceFor{
	"hours":     sched.HoursAt("-l h_rt"),
	"cpus":      slotsOption,
	"memory":    resourceOption("h_vmem", "mem_free", "mem", "mem_req", "rmem", "h_rss"),
	"gpus":      resourceOption(gpuNames...),
	"account":   sched.At("A"),
	"project":   sched.At("P"),
	"partition": sched.At("q"),
	"queue":     sched.At("q"),
}

// gpuNames are the names that sites have for GPUs.
var gpuNames = []string{"gpu", "gpus", "ngpus", "gpu_card"}

// slotsOption changes the number of slots of the job's parallel environment.
func slotsOption(given []sched.Option) (sched.Place, error) {
	pe, ok := sched.LastOption(given, "pe")
	name, _, _ := strings.Cut(pe, " ")
	if !ok || name == "" {
		return sched.Place{}, sched.Refusal("the job has no parallel environment", "add `-pe NAME 1` to the script; `qconf -spl` lists their names")
	}
	return sched.Place{Name: "pe", Before: name + " "}, nil
}

// resourceOption changes the one of these resources that the job has.
func resourceOption(names ...string) sched.PlaceFor {
	return func(given []sched.Option) (sched.Place, error) {
		for _, name := range names {
			if _, ok := sched.LastOption(given, "-l "+name); ok {
				return sched.Place{Name: "-l " + name}, nil
			}
		}
		return sched.Place{}, sched.Refusal("every site has its own name for that", fmt.Sprintf("add `-l %s=…`, or what it is called there, to the script", names[0]))
	}
}

// Demand: the slots of a parallel environment may all be on nodes of their own, unless its
// name says that they are on one. A resource for GPUs counts for each slot on most sites, but
// not on all: it is taken for the whole job.
func (scheduler) Demand(g sched.OptionSet) sched.Demand {
	slots := func(text string) (int, bool) {
		_, n, _ := strings.Cut(text, " ")
		return sched.Number(n)
	}
	d := sched.Demand{ArraySize: g.Number("t", 1, sched.ArrayJobs), Most: g.Number("pe", 1, func(text string) (int, bool) {
		if oneNode.MatchString(text) {
			return 1, true
		}
		return slots(text)
	})}
	d.Time = time.Duration(g.Number("-l h_rt", 0, sched.Seconds(sched.ParseClockTime))) * time.Second
	d.CPUs = g.Number("pe", 1, slots)
	for _, name := range gpuNames {
		d.GPUs = max(d.GPUs, g.Number("-l "+name, 0, sched.Number))
	}
	return d
}

// oneNode matches the names that sites give to parallel environments of one node.
var oneNode = regexp.MustCompile(`(?i)^(?:smp|shm|shared|omp|openmp|thread|multi[-_]?(?:core|thread)|one[-_]?node|single)`)
