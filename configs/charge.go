package configs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Charge is how a site charges jobs: how many units an hour of a core, a GPU or a node costs.
// What costs zero is not charged by itself.
type Charge struct {
	Unit     string  `json:"unit"`
	CoreHour float64 `json:"coreHour,omitempty"`
	GPUHour  float64 `json:"gpuHour,omitempty"`
	NodeHour float64 `json:"nodeHour,omitempty"`
}

func (c *Charge) fields() []field {
	return []field{
		{"unit", `"SU"`, text(&c.Unit)},
		{"core_hour", `1`, number(&c.CoreHour, 0, 1e6)},
		{"gpu_hour", `64`, number(&c.GPUHour, 0, 1e6)},
		{"node_hour", `128`, number(&c.NodeHour, 0, 1e6)},
	}
}

// Words are how a site charges, as in "an hour of a core costs 1 SU".
func (c *Charge) Words() string {
	var parts []string
	for _, p := range []struct {
		what  string
		price float64
	}{{"core", c.CoreHour}, {"GPU", c.GPUHour}, {"node", c.NodeHour}} {
		if p.price > 0 {
			parts = append(parts, fmt.Sprintf("a %s-hour costs %s %s", p.what, decimal(p.price), c.Unit))
		}
	}
	return strings.Join(parts, ", ")
}

// Usage is what a job asks for, as far as it is charged.
type Usage struct {
	Time               time.Duration
	Cores, GPUs, Nodes int
	Exclusive          bool     // no other job runs on its nodes
	Queues             []string // its queue, partition and QoS
}

// ChargesNodes reports whether a job in one of these queues is charged for its nodes as a whole, and the
// cores of a node; 0: not known.
func (s *Site) ChargesNodes(queues ...string) (whole bool, cores int) {
	whole, cores = s.WholeNodes || s.Charge.NodeHour > 0, s.NodeCores
	for _, q := range s.Queues {
		if slices.Contains(queues, q.Name) {
			if q.WholeNodes != nil {
				whole = *q.WholeNodes
			}
			cores = cmp.Or(q.Cores, cores)
		}
	}
	return whole, cores
}

// Cost is what a job costs that runs for its whole time limit. Where nodes are shared and the way of charging is
// not known, memory may count, too: the cost is at least that.
func (s *Site) Cost(u Usage) string {
	whole, perNode := s.ChargesNodes(u.Queues...)
	if !whole && !u.Exclusive {
		cost := s.Charge.cost(u.Time, u.Cores, u.GPUs, 0)
		if cost != "" && s.Charge.Unit == "" {
			cost = "at least " + cost
		}
		return cost
	}
	nodes := max(u.Nodes, 1)
	var cost, about string
	switch {
	case s.Charge.NodeHour == 0 && s.Charge.CoreHour > 0 && perNode > 0:
		cost = s.Charge.cost(u.Time, nodes*perNode, u.GPUs, 0)
	case s.Charge.NodeHour > 0:
		cost = s.Charge.cost(u.Time, 0, u.GPUs, nodes)
	default:
		cost = (&Charge{}).cost(u.Time, 0, 0, nodes)
		if parts := (&Charge{}).cost(u.Time, nodes*perNode, u.GPUs, 0); parts != "" {
			about = fmt.Sprintf(" (%s)", parts)
		}
	}
	if cost == "" {
		return ""
	}
	return cost + ": whole nodes are charged" + about
}

// cost is what hours of cores, GPUs and nodes cost: in the site's units, each with
// what it is for, else in such hours. What is zero is not said.
func (c *Charge) cost(limit time.Duration, cores, gpus, nodes int) string {
	if limit <= 0 {
		return ""
	}
	var parts []string
	add := func(n int, what string, price float64) {
		hours := limit.Hours() * float64(n)
		if n == 0 || c.Unit != "" && price == 0 {
			return
		}
		text := decimals(hours) + " " + what + "-hours"
		if hours == 1 {
			text = "1 " + what + "-hour"
		} else if hours < 1 && c.Unit == "" {
			text = fmt.Sprintf("%.0f %s-minutes", 60*hours, what)
		}
		if c.Unit != "" {
			text = decimals(hours*price) + " " + c.Unit + " for " + text
		}
		parts = append(parts, text)
	}
	add(gpus, "GPU", c.GPUHour)
	add(cores, "core", c.CoreHour)
	add(nodes, "node", c.NodeHour)
	return strings.Join(parts, ", ")
}

// decimals writes a number with at most two decimals.
func decimals(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }
