package pbs

import (
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// discoverScript is PBS's part of a discovery: three connections to the server.
const discoverScript = `part server 4 20000 qstat -B -f
part queues 5 300000 qstat -Q -f
part nodes 5 200000 pbsnodes -a -S -j
`

func (scheduler) ReadDiscovery(a *sched.Discovery, look *api.Look) {
	queues, byName := splitAttributes(a.Parts["queues"], "Queue"), map[string]record{}
	for _, q := range queues {
		byName[q["Queue"]] = q
	}
	standard := ""
	for _, line := range a.Lines("server") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "default_queue = "); ok {
			standard = name
		}
	}
	look.AnyPartition, look.Cluster = true, readUsage(a.Lines("nodes"))
	for _, q := range queues {
		name := sched.PlainWord(q["Queue"])
		if name == "" || !allows(q, a.Login, a.Groups) {
			continue
		}
		longest, waiting := limits(q, byName)
		look.Partitions = append(look.Partitions, api.Partition{
			Name: name, Default: name == standard, LimitSeconds: int64(longest / time.Second), Source: "qstat -Q", PartitionUsage: api.PartitionUsage{Waiting: waiting},
		})
	}
}

// allows reports whether the user may submit to a queue, as far as qstat says it.
func allows(q record, user string, groups []string) bool {
	open := q["enabled"] != "False" && q["started"] != "False" && q["from_route_only"] != "True"
	return open && (q["acl_user_enable"] != "True" || isListed(q["acl_users"], user)) &&
		(q["acl_group_enable"] != "True" || isListed(q["acl_groups"], groups...))
}

// isListed reports whether an access list has one of names. An entry may begin with + or -,
// and end with @HOST.
func isListed(list string, names ...string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		refused := strings.HasPrefix(entry, "-")
		name, _, _ := strings.Cut(strings.TrimLeft(entry, "+-"), "@")
		if slices.Contains(names, name) {
			return !refused
		}
	}
	return false
}

// limits returns the longest time of a queue (0: no limit), and how many jobs wait there: of a queue that
// routes, those of the queues that it routes to.
func limits(q record, all map[string]record) (longest time.Duration, waiting int) {
	longest, waiting = sched.ParseClockTime(q["resources_max.walltime"]), countQueued(q)
	var others []time.Duration
	for name := range strings.SplitSeq(q["route_destinations"], ",") {
		name, _, _ = strings.Cut(strings.TrimSpace(name), "@")
		others = append(others, sched.ParseClockTime(all[name]["resources_max.walltime"])) // 0 where there is none
		waiting += countQueued(all[name])
	}
	if longest == 0 && !slices.Contains(others, 0) {
		longest = slices.Max(others)
	}
	return longest, waiting
}

// countQueued returns how many jobs of a queue wait.
func countQueued(q record) int {
	_, count, _ := strings.Cut(q["state_count"], "Queued:")
	return sched.Count(count, 0)
}

// readUsage sums up pbsnodes -aSj, whose columns are vnode, state, njobs, run, susp, and free
// and total of memory, CPUs, MICs and GPUs. Nodes share no column with queues.
func readUsage(lines []string) api.PartitionUsage {
	var u api.PartitionUsage
	for _, line := range lines {
		f := strings.Fields(strings.ReplaceAll(line, " b/", "b/")) // a node without free memory has "0 b/251gb"
		if len(f) < 9 || !strings.Contains(f[6], "/") {
			continue
		}
		free, total := readShare(f[6])
		freeGPUs, gpus := readShare(f[8])
		u.CPUs, u.GPUs, u.NodeCPUs = u.CPUs+total, u.GPUs+gpus, max(u.NodeCPUs, total)
		if _, memory, ok := strings.Cut(f[5], "/"); ok {
			u.NodeMB = max(u.NodeMB, int(sched.ParseSize(memory)>>20))
		}
		if f[1] == "free" {
			u.FreeCPUs, u.FreeGPUs = u.FreeCPUs+free, u.FreeGPUs+freeGPUs
			if f[3] == "0" { // no job runs there
				u.IdleNodes++
			}
		}
		u.Guess = true // a queue may have some of the nodes only
	}
	return u
}

func readShare(text string) (free, total int) {
	f, t, _ := strings.Cut(text, "/")
	return sched.Count(f, 0), sched.Count(t, 0)
}
