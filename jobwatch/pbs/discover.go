package pbs

import (
	"regexp"
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
	queues := splitAttributes(a.Parts["queues"], "Queue")
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
		p := api.Partition{Name: name, Default: name == standard, LimitSeconds: int64(longestTime(q, queues) / time.Second), Source: "qstat -Q"}
		if m := queuedPattern.FindStringSubmatch(q["state_count"]); m != nil {
			p.Waiting = sched.Count(m[1], 0)
		}
		look.Partitions = append(look.Partitions, p)
	}
}

// queuedPattern matches how many jobs of a queue wait.
var queuedPattern = regexp.MustCompile(`\bQueued:(\d+)`)

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

// longestTime is the longest time of a queue, or of the queues that it routes to.
func longestTime(q record, all []record) time.Duration {
	if limit := sched.ParseClockTime(q["resources_max.walltime"]); limit > 0 || q["queue_type"] != "Route" {
		return limit
	}
	var longest time.Duration
	for name := range strings.SplitSeq(q["route_destinations"], ",") {
		name, _, _ = strings.Cut(strings.TrimSpace(name), "@")
		i := slices.IndexFunc(all, func(r record) bool { return r["Queue"] == name })
		if i < 0 {
			return 0
		}
		limit := sched.ParseClockTime(all[i]["resources_max.walltime"])
		if limit == 0 {
			return 0
		}
		longest = max(longest, limit)
	}
	return longest
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
