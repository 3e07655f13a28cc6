package jobwatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pbsChoices are qsub's words for choices. On the command line, one resource replaces the same
// one of the script. PBS has no word for a QoS.
var pbsChoices = map[string]choiceWord{
	"hours":     hoursAs(resourceWord("walltime")),
	"cpus":      pbsChunkWord("ncpus"),
	"memory":    pbsChunkWord("mem"),
	"gpus":      pbsChunkWord("ngpus"),
	"nodes":     pbsChunkCount,
	"account":   optionWord("A"),
	"project":   optionWord("P"),
	"partition": optionWord("q"),
	"queue":     optionWord("q"),
}

// pbsChunkWord is the word for a part of each chunk. PBS does not allow a select and a
// resource of the whole job together, so the select that the job has is changed.
func pbsChunkWord(resourceName string) choiceWord {
	return func(c chosen) (option, error) {
		chunk, has, err := c.onlyChunk()
		if err != nil {
			return option{}, err
		}
		if !has {
			return option{"l", resourceName + "=" + c.value}, nil
		}
		parts := strings.Split(chunk, ":")
		i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, resourceName+"=") })
		if i < 0 { // sites have other names for it, and other rules about where it belongs
			return option{}, c.refuse(fmt.Sprintf("select=%s has no %s", chunk, resourceName), fmt.Sprintf("add :%s=… to the select of the script", resourceName))
		}
		parts[i] = resourceName + "=" + c.value
		return option{"l", "select=" + strings.Join(parts, ":")}, nil
	}
}

// pbsChunkCount is the word for how many nodes: how many chunks.
func pbsChunkCount(c chosen) (option, error) {
	chunk, has, err := c.onlyChunk()
	if err != nil {
		return option{}, err
	}
	if !has {
		return option{}, c.refuse("the job has no select", "add `-l select=1:ncpus=…` to the script")
	}
	if first, rest, _ := strings.Cut(chunk, ":"); isNumber(first) {
		chunk = rest
	}
	return option{"l", strings.TrimSuffix("select="+c.value+":"+chunk, ":")}, nil
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// onlyChunk is the job's select, if it has one with a single kind of chunk. In one with
// several, or in Torque's nodes=, it is not clear what to change.
func (c *chosen) onlyChunk() (chunk string, has bool, err error) {
	chunk, has = lastOption(c.given, "-l select")
	switch {
	case strings.Contains(chunk, "+"):
		return "", false, c.refuse(fmt.Sprintf("select=%s has several kinds of chunks", chunk), "change the script")
	case !has:
		if nodes, torque := lastOption(c.given, "-l nodes"); torque {
			return "", false, c.refuse(fmt.Sprintf("the job asks for nodes=%s", nodes), "change the script")
		}
	}
	return chunk, has, nil
}

// pbsDemand: each chunk may be on a node of its own, as each of Torque's procs.
func pbsDemand(g givenOptions) demand {
	d := demand{jobs: max(g.number("J", 1, arrayJobs), g.number("t", 1, arrayJobs))} // Torque's word is -t
	d.Time = time.Duration(g.number("-l walltime", 0, seconds(parseClockTime))) * time.Second
	place, _ := lastOption(g.all(), "-l place")
	d.Exclusive = strings.Contains(place, "excl")
	sum := func(part func(pbsChunk) int, other int) int {
		read := sumOf("+", func(text string) (int, bool) {
			c, ok := parseChunk(text)
			return c.count * part(c), ok
		})
		return g.number("-l select", g.number("-l nodes", other, read), read)
	}
	d.Nodes = sum(func(pbsChunk) int { return 1 }, 1)
	d.CPUs = sum(func(c pbsChunk) int { return max(c.cpus, 1) }, g.number("-l ncpus", 1, number))
	d.GPUs = sum(func(c pbsChunk) int { return c.gpus }, g.number("-l ngpus", 0, number))
	d.most = max(d.Nodes, g.number("-l procs", 1, number))
	return d
}

// pbsChunk is a kind of chunk of a job.
type pbsChunk struct {
	count, cpus, gpus int
}

// parseChunk reads 2:ncpus=4:mem=16gb, or Torque's 2:ppn=4. Without a number it is one, also with
// the name of a node.
func parseChunk(text string) (c pbsChunk, ok bool) {
	c, ok = pbsChunk{count: 1}, true
	for i, part := range strings.Split(text, ":") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0 && isNumber(part):
			c.count, ok = number(part)
		case name == "ncpus" || name == "ppn":
			c.cpus = count(value, 0)
		case name == "ngpus" || name == "gpus":
			c.gpus = count(value, 0)
		}
	}
	return c, ok
}
