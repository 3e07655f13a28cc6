package slurm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/jobwatch/sched"
)

// options are sbatch's words for choices. The last of two options for the same counts,
// and the command line has precedence over the script.
var options = map[string]sched.PlaceFor{
	"hours":     sched.HoursAt("time"),
	"cpus":      sched.At("cpus-per-task"),
	"memory":    sched.At("mem"),
	"gpus":      gpuOption,
	"nodes":     sched.At("nodes"),
	"account":   sched.At("account"),
	"project":   sched.At("account"),
	"partition": sched.At("partition"),
	"queue":     sched.At("partition"),
	"qos":       sched.At("qos"),
}

// gpuOptions are sbatch's options for GPUs.
var gpuOptions = []string{"gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres"}

// gpuOption changes the number in the option that the job has, and keeps the type of GPU. Two
// of these options must agree, so a job that has two is left alone.
func gpuOption(given []sched.Option) (sched.Place, error) {
	var has []sched.Option
	for _, name := range gpuOptions {
		if value, ok := sched.LastOption(given, name); ok && (name != "gres" || strings.Contains(value, "gpu")) {
			has = append(has, sched.Option{Name: name, Value: value})
		}
	}
	switch len(has) {
	case 0:
		others, _ := sched.LastOption(given, "gres") // which the argument would replace
		return sched.Place{Name: "gres", Before: strings.TrimPrefix(others+",gpu:", ",")}, nil
	case 1:
	default:
		return sched.Place{}, sched.Refusal("the job has both --"+has[0].Name+" and --"+has[1].Name, "remove one of them from the script")
	}
	o := has[0]
	if strings.Contains(o.Value, ",") {
		return sched.Place{}, sched.Refusal("--"+o.Name+"="+o.Value+" asks for several kinds", "change the script")
	}
	kind, _ := splitGPUs(o.Value)
	return sched.Place{Name: o.Name, Before: kind}, nil
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
var sizeOptions = []string{"array", "gpus", "nodefile", "nodelist", "nodes", "ntasks", "time"}

// Demand: a task, and a GPU, is on one node, so that there are no more nodes than tasks or
// GPUs if their number is not said.
func (scheduler) Demand(g sched.OptionSet) sched.Demand {
	if g.Counts == sched.LargestValue && slices.ContainsFunc(g.All(), isShortened) {
		return sched.Demand{}
	}
	nodes := g.Number("nodes", 0, sched.Number)
	tasks := g.Number("ntasks", max(nodes, 1)*g.Number("ntasks-per-node", 1, sched.Number), sched.Number)
	d := sched.Demand{ArraySize: g.Number("array", 1, sched.ArrayJobs), Most: nodes}
	d.Time = time.Duration(g.Number("time", 0, sched.Seconds(parseDuration))) * time.Second
	d.Nodes, d.CPUs = max(nodes, 1), tasks*g.Number("cpus-per-task", 1, sched.Number)
	_, d.Exclusive = sched.LastOption(g.All(), "exclusive")
	for _, name := range gpuOptions {
		gpus := g.Number(name, 0, gpusOf(name))
		switch name {
		case "gres", "gpus-per-node":
			gpus *= d.Nodes
		case "gpus-per-task":
			gpus *= tasks
		}
		d.GPUs = max(d.GPUs, gpus)
	}
	if nodes == 0 {
		d.Most = max(g.Number("ntasks", 1, sched.Number), g.Number("gpus", 0, gpusOf("gpus")), g.Number("nodelist", 0, namesOf), g.Number("nodefile", 0, unknown))
	}
	return d
}

// unknown is for a value that says nothing by itself.
func unknown(string) (int, bool) { return 0, false }

func isShortened(o sched.Option) bool {
	return o.Name != "" && slices.ContainsFunc(sizeOptions, func(name string) bool { return o.Name != name && strings.HasPrefix(name, o.Name) })
}

// gpusOf reads how many GPUs the value of an option is. Other generic resources are none.
func gpusOf(name string) func(string) (int, bool) {
	return sched.SumOf(",", func(item string) (int, bool) {
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

// ownLog matches the id or the name of a job in its --output.
var ownLog = regexp.MustCompile(`%\d*[jJAx]`)

// parseDuration reads minutes, minutes:seconds, hours:minutes:seconds, and all after days- with the
// hours first.
func parseDuration(text string) time.Duration {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		if minutes, err := strconv.Atoi(text); err == nil {
			return time.Duration(minutes) * time.Minute
		}
		return sched.ParseClockTime(text)
	}
	n, err := strconv.Atoi(days)
	if err != nil || n > 10000 { // sstat prints such for a step that it knows nothing of
		return 0
	}
	rest += strings.Repeat(":00", max(0, 2-strings.Count(rest, ":")))
	return time.Duration(n)*24*time.Hour + sched.ParseClockTime(rest)
}
