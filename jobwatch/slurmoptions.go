package jobwatch

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slurmChoices are sbatch's words for choices. The last of two options for the same counts,
// and the command line has precedence over the script.
var slurmChoices = map[string]choiceWord{
	"hours":     hoursAs(optionWord("time")),
	"cpus":      optionWord("cpus-per-task"),
	"memory":    optionWord("mem"),
	"gpus":      slurmGPUs,
	"nodes":     optionWord("nodes"),
	"account":   optionWord("account"),
	"project":   optionWord("account"),
	"partition": optionWord("partition"),
	"queue":     optionWord("partition"),
	"qos":       optionWord("qos"),
}

// gpuOptions are sbatch's options for GPUs.
var gpuOptions = []string{"gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres"}

// slurmGPUs changes the number in the option that the job has, and keeps the type of GPU. Two
// of these options must agree, so a job that has two is left alone.
func slurmGPUs(c chosen) (option, error) {
	var has []option
	for _, name := range gpuOptions {
		if value, ok := lastOption(c.given, name); ok && (name != "gres" || strings.Contains(value, "gpu")) {
			has = append(has, option{name, value})
		}
	}
	switch len(has) {
	case 0:
		others, _ := lastOption(c.given, "gres") // which the argument would replace
		return option{"gres", strings.TrimPrefix(others+",gpu:"+c.value, ",")}, nil
	case 1:
	default:
		return option{}, c.refuse("the job has both --"+has[0].name+" and --"+has[1].name, "remove one of them from the script")
	}
	o := has[0]
	if strings.Contains(o.value, ",") {
		return option{}, c.refuse("--"+o.name+"="+o.value+" asks for several kinds", "change the script")
	}
	kind, _ := splitGPUs(o.value)
	o.value = kind + c.value
	return o, nil
}

// splitGPUs splits "2", "a100:2" or "gpu:2080ti:2" into what the number follows and the number.
// Without a number it is one; a type may begin with a digit.
func splitGPUs(item string) (kind string, n int) {
	at := strings.LastIndexByte(item, ':') + 1
	if n, err := strconv.Atoi(item[at:]); err == nil {
		return item[:at], n
	}
	return item + ":", 1
}

// sizeOptions are those that say how large a job is. sbatch also accepts their beginnings.
var sizeOptions = []string{"array", "gpus", "nodelist", "nodes", "ntasks", "time"}

// slurmDemand: a task, and a GPU, is on one node, so that there are no more nodes than tasks or
// GPUs if their number is not said.
func slurmDemand(g givenOptions) demand {
	if g.counts == largestValue && slices.ContainsFunc(g.all(), isShortened) {
		return demand{}
	}
	nodes := g.number("nodes", 0, number)
	tasks := g.number("ntasks", max(nodes, 1)*g.number("ntasks-per-node", 1, number), number)
	d := demand{jobs: g.number("array", 1, arrayJobs), most: nodes}
	d.Time = time.Duration(g.number("time", 0, seconds(slurmDuration))) * time.Second
	d.Nodes, d.CPUs = max(nodes, 1), tasks*g.number("cpus-per-task", 1, number)
	_, d.Exclusive = lastOption(g.all(), "exclusive")
	for _, name := range gpuOptions {
		gpus := g.number(name, 0, gpusOf(name))
		switch name {
		case "gres", "gpus-per-node":
			gpus *= d.Nodes
		case "gpus-per-task":
			gpus *= tasks
		}
		d.GPUs = max(d.GPUs, gpus)
	}
	if nodes == 0 {
		d.most = max(g.number("ntasks", 1, number), g.number("gpus", 0, gpusOf("gpus")), g.number("nodelist", 0, namesOf))
	}
	return d
}

func isShortened(o option) bool {
	return o.name != "" && slices.ContainsFunc(sizeOptions, func(name string) bool { return o.name != name && strings.HasPrefix(name, o.name) })
}

// gpusOf reads how many GPUs the value of an option is. Other generic resources are none.
func gpusOf(name string) func(string) (int, bool) {
	return sumOf(",", func(item string) (int, bool) {
		if item == "" || name == "gres" && !strings.HasPrefix(strings.TrimPrefix(item, "gres/"), "gpu") {
			return 0, true
		}
		_, n := splitGPUs(item)
		return n, n >= 0 && n <= 1e6
	})
}

// namesOf reads how many nodes a list has, unless that is a range or a file.
func namesOf(text string) (int, bool) {
	return strings.Count(text, ",") + 1, !strings.ContainsAny(text, "[/")
}

// slurmOwnLog matches the id or the name of a job in its --output.
var slurmOwnLog = regexp.MustCompile(`%\d*[jJAx]`)

// slurmDuration reads minutes, minutes:seconds, hours:minutes:seconds, and all after days- with the
// hours first.
func slurmDuration(text string) time.Duration {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		if minutes, err := strconv.Atoi(text); err == nil {
			return time.Duration(minutes) * time.Minute
		}
		return parseClockTime(text)
	}
	n, err := strconv.Atoi(days)
	if err != nil || n > 10000 { // sstat prints such for a step that it knows nothing of
		return 0
	}
	rest += strings.Repeat(":00", max(0, 2-strings.Count(rest, ":")))
	return time.Duration(n)*24*time.Hour + parseClockTime(rest)
}
