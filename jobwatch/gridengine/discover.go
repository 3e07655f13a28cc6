package gridengine

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// discoverScript is Grid Engine's part of a discovery: three connections to the server. qconf
// answers only on administrative hosts; qstat -U has the queues that the user may use, with
// their limits. Of the resources of each queue, which are many, few lines count.
const discoverScript = `ge_queues() {
	qstat -f -F -U "$user" -u "$user" | grep -E '^[^ ]+@|[a-z]:(qname|h_rt|slots|gpus?|ngpus|cuda)='
}
part queues 6 300000 ge_queues
part parallel 3 20000 qconf -spl
part projects 3 20000 qconf -sprjl
`

// waitingPart is one more connection. Waiting jobs have no queue.
const waitingPart = `ge_waiting() { qstat -u '*' -s p | sed 1,2d | wc -l; }
part waiting 5 1000 ge_waiting
`

func (scheduler) ReadDiscovery(a *sched.Discovery, look *api.Look) {
	for _, name := range sched.PlainWords(a.Lines("projects")) {
		look.Accounts = append(look.Accounts, api.Account{Name: name, Source: "qconf -sprjl"})
	}
	look.AnyPartition, look.Parallel = true, sched.PlainWords(a.Lines("parallel"))
	look.Partitions = append(look.Partitions, readQueues(a.Lines("queues"))...)
	if lines := a.Lines("waiting"); len(lines) > 0 {
		look.Cluster.Waiting = sched.Count(strings.TrimSpace(lines[0]), 0)
	}
}

// instance is an instance of a queue: the queue on one host.
type instance struct {
	queue       string
	free, total int   // slots; none is free if it takes no jobs
	freeGPUs    int   // of a consumable resource: what is left of it
	gpus        int   // at least
	limit       int64 // seconds; 0 for none
}

// readQueues reads qstat -f -F: a line for each instance of a queue, as in
//
//	all.q@cn01                     BIP   0/1/4          1.06     lx-amd64      d
//
// and under it lines of its resources, as in hc:gpu=2 and qf:h_rt=00:10:00.
func readQueues(lines []string) []api.Partition {
	var instances []instance
	for _, line := range lines {
		resource := strings.TrimSpace(line)
		if resource == strings.TrimRight(line, " ") {
			instances = append(instances, readInstance(line))
			continue
		}
		if len(instances) == 0 {
			continue
		}
		in := &instances[len(instances)-1]
		_, resource, _ = strings.Cut(resource, ":")
		switch key, value, _ := strings.Cut(resource, "="); key {
		case "qname":
			in.queue = sched.PlainWord(value) // the whole name: the table's is cut
		case "h_rt":
			in.limit = int64(sched.ParseClockTime(value) / time.Second)
		case "slots": // with those of other queues on the host
			in.free = min(in.free, sched.Count(value, 0))
		default:
			n, _ := strconv.ParseFloat(value, 64)
			in.freeGPUs = max(in.freeGPUs, int(n))
			in.gpus = max(in.freeGPUs, 1)
		}
	}
	var list []api.Partition
	for _, in := range instances {
		if in.queue == "" {
			continue
		}
		i := slices.IndexFunc(list, func(p api.Partition) bool { return p.Name == in.queue })
		if i < 0 {
			i = len(list)
			list = append(list, api.Partition{Name: in.queue, Source: "qstat -U", GPUOnly: true, LimitSeconds: in.limit})
		}
		p := &list[i]
		p.Guess = true // queues share the hosts
		p.CPUs, p.NodeCPUs, p.GPUs = p.CPUs+in.total, max(p.NodeCPUs, in.total), p.GPUs+in.gpus
		p.GPUOnly = p.GPUOnly && in.gpus > 0
		if in.limit == 0 || p.LimitSeconds > 0 && in.limit > p.LimitSeconds {
			p.LimitSeconds = in.limit
		}
		if in.free > 0 {
			p.FreeCPUs, p.FreeGPUs = p.FreeCPUs+in.free, p.FreeGPUs+in.freeGPUs
			if in.free == in.total {
				p.IdleNodes++
			}
		}
	}
	return list
}

// readInstance reads the columns name, type, reserved/used/total slots, load, architecture
// and states.
func readInstance(line string) instance {
	f := append(strings.Fields(line), "", "", "", "", "")
	queue, _, ok := strings.Cut(f[0], "@")
	if !ok {
		return instance{}
	}
	slots := append(strings.Split(f[2], "/"), "", "")
	in := instance{queue: sched.PlainWord(queue), total: sched.Count(slots[2], 0)}
	if strings.ContainsAny(f[1], "BP") && !strings.ContainsAny(f[5], "auoACDdEsSc") { // not for interactive jobs only, and open
		in.free = max(0, in.total-sched.Count(slots[1], 0))
	}
	return in
}
