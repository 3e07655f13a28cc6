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
var options = map[string]sched.OptionFor{
	"hours":     sched.HoursAs(sched.AsResource("walltime")),
	"cpus":      chunkOption("ncpus"),
	"memory":    chunkOption("mem"),
	"gpus":      chunkOption("ngpus"),
	"nodes":     chunkCountOption,
	"account":   sched.AsOption("A"),
	"project":   sched.AsOption("P"),
	"partition": sched.AsOption("q"),
	"queue":     sched.AsOption("q"),
}

// chunkOption is the word for a part of each chunk. PBS does not allow a select and a
// resource of the whole job together, so the select that the job has is changed.
func chunkOption(resourceName string) sched.OptionFor {
	return func(c sched.Choice) (sched.Option, error) {
		chunk, has, err := onlyChunk(c)
		if err != nil {
			return sched.Option{}, err
		}
		if !has {
			return sched.Option{Name: "l", Value: resourceName + "=" + c.Value}, nil
		}
		parts := strings.Split(chunk, ":")
		i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, resourceName+"=") })
		if i < 0 { // sites have other names for it, and other rules about where it belongs
			return sched.Option{}, c.Refuse(fmt.Sprintf("select=%s has no %s", chunk, resourceName), fmt.Sprintf("add :%s=… to the select of the script", resourceName))
		}
		parts[i] = resourceName + "=" + c.Value
		return sched.Option{Name: "l", Value: "select=" + strings.Join(parts, ":")}, nil
	}
}

// chunkCountOption is the word for how many nodes: how many chunks.
func chunkCountOption(c sched.Choice) (sched.Option, error) {
	chunk, has, err := onlyChunk(c)
	if err != nil {
		return sched.Option{}, err
	}
	if !has {
		return sched.Option{}, c.Refuse("the job has no select", "add `-l select=1:ncpus=…` to the script")
	}
	if first, rest, _ := strings.Cut(chunk, ":"); isNumber(first) {
		chunk = rest
	}
	return sched.Option{Name: "l", Value: strings.TrimSuffix("select="+c.Value+":"+chunk, ":")}, nil
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// onlyChunk is the job's select, if it has one with a single kind of chunk. In one with
// several, or in Torque's nodes=, it is not clear what to change.
func onlyChunk(c sched.Choice) (chunk string, has bool, err error) {
	chunk, has = sched.LastOption(c.Given, "-l select")
	switch {
	case strings.Contains(chunk, "+"):
		return "", false, c.Refuse(fmt.Sprintf("select=%s has several kinds of chunks", chunk), "change the script")
	case !has:
		if nodes, torque := sched.LastOption(c.Given, "-l nodes"); torque {
			return "", false, c.Refuse(fmt.Sprintf("the job asks for nodes=%s", nodes), "change the script")
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
