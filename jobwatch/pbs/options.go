package pbs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/jobwatch/sched"
)

// options are qsub's words for choices. On the command line, one resource replaces the same
// one of the script. PBS has no word for a QoS.
var options = map[string]sched.PlaceFor{
	"hours":     sched.HoursAt("-l walltime"),
	"cpus":      chunkOption("ncpus"),
	"memory":    chunkOption("mem"),
	"gpus":      chunkOption("ngpus"),
	"nodes":     chunkCountOption,
	"account":   sched.At("A"),
	"project":   sched.At("P"),
	"partition": sched.At("q"),
	"queue":     sched.At("q"),
}

// chunkOption is the word for a part of each chunk. PBS does not allow a select and a
// resource of the whole job together, so the select that the job has is changed.
func chunkOption(resourceName string) sched.PlaceFor {
	return func(given []sched.Option) (sched.Place, error) {
		chunk, has, err := onlyChunk(given)
		if err != nil || !has {
			return sched.Place{Name: "-l " + resourceName}, err
		}
		parts := strings.Split(chunk, ":")
		i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, resourceName+"=") })
		if i < 0 { // sites have other names for it, and other rules about where it belongs
			return sched.Place{}, sched.Refusal(fmt.Sprintf("select=%s has no %s", chunk, resourceName), fmt.Sprintf("add :%s=… to the select of the script", resourceName))
		}
		before := strings.Join(slices.Concat(parts[:i], []string{resourceName + "="}), ":")
		return sched.Place{Name: "-l select", Before: before, After: strings.TrimSuffix(":"+strings.Join(parts[i+1:], ":"), ":")}, nil
	}
}

// chunkCountOption is the word for how many nodes: how many chunks.
func chunkCountOption(given []sched.Option) (sched.Place, error) {
	chunk, has, err := onlyChunk(given)
	if err == nil && !has {
		err = sched.Refusal("the job has no select", "add `-l select=1:ncpus=…` to the script")
	}
	if first, rest, _ := strings.Cut(chunk, ":"); isNumber(first) {
		chunk = rest
	}
	return sched.Place{Name: "-l select", After: strings.TrimSuffix(":"+chunk, ":")}, err
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// onlyChunk is the job's select, if it has one with a single kind of chunk. In one with
// several, or in Torque's nodes=, it is not clear what to change.
func onlyChunk(given []sched.Option) (chunk string, has bool, err error) {
	chunk, has = sched.LastOption(given, "-l select")
	switch {
	case strings.Contains(chunk, "+"):
		return "", false, sched.Refusal(fmt.Sprintf("select=%s has several kinds of chunks", chunk), "change the script")
	case !has:
		if nodes, torque := sched.LastOption(given, "-l nodes"); torque {
			return "", false, sched.Refusal(fmt.Sprintf("the job asks for nodes=%s", nodes), "change the script")
		}
	}
	return chunk, has, nil
}

// Demand: each chunk may be on a node of its own, as each of Torque's procs.
func (scheduler) Demand(g sched.OptionSet) sched.Demand {
	d := sched.Demand{ArraySize: max(g.Number("J", 1, sched.ArrayJobs), g.Number("t", 1, sched.ArrayJobs))} // Torque's word is -t
	d.Time = time.Duration(g.Number("-l walltime", 0, sched.Seconds(sched.ParseClockTime))) * time.Second
	place, _ := sched.LastOption(g.All(), "-l place")
	d.Exclusive = strings.Contains(place, "excl")
	sum := func(part func(chunkKind) int, other int) int {
		read := sched.SumOf("+", func(text string) (int, bool) {
			c, ok := parseChunk(text)
			return c.count * part(c), ok
		})
		return g.Number("-l select", g.Number("-l nodes", other, read), read)
	}
	d.Nodes = sum(func(chunkKind) int { return 1 }, 1)
	d.CPUs = sum(func(c chunkKind) int { return max(c.cpus, 1) }, g.Number("-l ncpus", 1, sched.Number))
	d.GPUs = sum(func(c chunkKind) int { return c.gpus }, g.Number("-l ngpus", 0, sched.Number))
	d.Most = max(d.Nodes, g.Number("-l procs", 1, sched.Number))
	return d
}

// chunkKind is a kind of chunk of a job.
type chunkKind struct {
	count, cpus, gpus int
}

// parseChunk reads 2:ncpus=4:mem=16gb, or Torque's 2:ppn=4. Without a number it is one, also with
// the name of a node.
func parseChunk(text string) (c chunkKind, ok bool) {
	c, ok = chunkKind{count: 1}, true
	for i, part := range strings.Split(text, ":") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0 && isNumber(part):
			c.count, ok = sched.Number(part)
		case name == "ncpus" || name == "ppn":
			c.cpus = sched.Count(value, 0)
		case name == "ngpus" || name == "gpus":
			c.gpus = sched.Count(value, 0)
		}
	}
	return c, ok
}
