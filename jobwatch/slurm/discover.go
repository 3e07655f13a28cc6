package slurm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// discoverScript is Slurm's part of a discovery: five requests to the controller and the database.
// Where the database does not answer, sshare knows the accounts.
const discoverScript = `slurm_accounts() {
	own=$(scontrol show config | head -c 100000 | sed -n 's/^ClusterName *= *//p')
	associations=$(sacctmgr -n -P show assoc where user="$user" ${own:+cluster="$own"} format=account,partition,qos,defaultqos | head -c 100000)
	if [ -n "$associations" ]; then printf '%s\n' "$associations"; else sshare -n -P -U -o account; fi
}
part accounts 6 100000 slurm_accounts
part default 4 1000 sacctmgr -n -P show user "$user" format=defaultaccount
part partitions 5 300000 scontrol -o show partition
part nodes 5 200000 sinfo -h -e -O 'PartitionName:|,StateCompact:|,Nodes:|,CPUsState:|,CPUs:|,Memory:|,Gres:|,GresUsed:|'
`

// waitingPart is one more request. An array counts as one job, and a job of several partitions for each.
const waitingPart = `slurm_waiting() { squeue -h -t PENDING -o %P | tr , '\n' | sort | uniq -c; }
part waiting 5 100000 slurm_waiting
`

func (scheduler) ReadDiscovery(a *sched.Discovery, look *api.Look) {
	standard := ""
	if lines := a.Lines("default"); len(lines) > 0 {
		standard = sched.PlainWord(lines[0])
	}
	for _, line := range a.Lines("accounts") {
		f := append(strings.Split(line, "|"), "", "", "")
		account := api.Account{Name: sched.PlainWord(f[0]), Partition: sched.PlainWord(f[1]), QoS: sched.PlainWords(strings.Split(f[2], ",")), DefaultQoS: sched.PlainWord(f[3]), Source: "sacctmgr"}
		if f[0] == line {
			account.Source = "sshare"
		}
		if account.Name == "" {
			continue
		}
		account.Default = account.Name == standard
		look.Accounts = append(look.Accounts, account)
	}
	slices.SortStableFunc(look.Accounts, func(a, b api.Account) int { return sched.TrueFirst(a.Default, b.Default) })
	usage := readUsage(a.Lines("nodes"))
	waiting := map[string]int{}
	for _, line := range a.Lines("waiting") {
		if f := strings.Fields(line); len(f) == 2 {
			waiting[f[1]] = sched.Count(f[0], 0)
		}
	}
	for _, line := range a.Lines("partitions") {
		if p, ok := readPartition(line, a.Groups, look.Accounts); ok {
			if u := usage[p.Name]; u != nil {
				p.PartitionUsage, p.GPUTypes, p.FreeTypes = u.PartitionUsage, u.types, u.free
				p.GPUOnly = u.nodes > 0 && u.gpuNodes == u.nodes
			}
			p.Waiting = waiting[p.Name]
			look.Partitions = append(look.Partitions, p)
		}
	}
}

// readPartition reads a line of scontrol -o show partition. It reports whether the user
// may use the partition, as far as the line says it.
func readPartition(line string, groups []string, accounts []api.Account) (api.Partition, bool) {
	keys := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(word, "=")
		keys[name] = value
	}
	p := api.Partition{
		Name: sched.PlainWord(keys["PartitionName"]), Default: keys["Default"] == "YES", LimitSeconds: int64(parseDuration(keys["MaxTime"]) / time.Second), Source: "scontrol",
	}
	routes := p.Default && keys["State"] == "INACTIVE" // the site's submit filter sends its jobs to others
	if p.Name == "" || keys["State"] != "UP" && !routes || keys["RootOnly"] == "YES" || !allows(keys["AllowGroups"], "", groups...) {
		return p, false
	}
	needsQoS := true
	for _, a := range accounts {
		if a.Partition != "" && a.Partition != p.Name || !allows(keys["AllowAccounts"], keys["DenyAccounts"], a.Name) {
			continue
		}
		accepted := slices.DeleteFunc(slices.Clone(a.QoS), func(q string) bool { return !allows(keys["AllowQos"], keys["DenyQos"], q) })
		if len(accepted) == 0 && len(a.QoS) > 0 {
			continue
		}
		usual := a.DefaultQoS
		if usual == "" && slices.Contains(a.QoS, "normal") {
			usual = "normal" // which Slurm uses then
		}
		if len(accepted) == 0 || usual == "" || slices.Contains(accepted, usual) {
			needsQoS = false
		} else if p.QoS == "" {
			p.QoS = accepted[0]
		}
		p.Accounts = append(p.Accounts, a.Name)
	}
	if !needsQoS {
		p.QoS = ""
	}
	allowed := len(p.Accounts) > 0 || len(accounts) == 0
	if len(p.Accounts) == len(accounts) {
		p.Accounts = nil
	}
	return p, allowed
}

// allows reports whether one of names is in a list, or in none that is denied. ALL and
// an absent list are everybody.
func allows(allowed, denied string, names ...string) bool {
	in := func(list string) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(x string) bool { return slices.Contains(names, x) })
	}
	if allowed != "" && allowed != "ALL" && allowed != "(null)" {
		return in(allowed)
	}
	return denied == "" || !in(denied)
}

// partitionUsage is what a partition's nodes have.
type partitionUsage struct {
	api.PartitionUsage
	types           []string
	free            map[string]int // GPUs, by type
	nodes, gpuNodes int
}

// gpuPattern matches a kind of GPU in a list of generic resources: gpu:a100:4(S:0-1), gpu:2080ti:8, gpu:2.
var gpuPattern = regexp.MustCompile(`(?:^|,)gpu(?::([^:,()]+))?:(\d+)\b`)

// readUsage sums up sinfo's lines, each of which stands for nodes that are alike.
func readUsage(lines []string) map[string]*partitionUsage {
	all := map[string]*partitionUsage{}
	for _, line := range lines {
		f := strings.Split(line, "|")
		if len(f) < 8 {
			continue
		}
		u := all[f[0]]
		if u == nil {
			u = &partitionUsage{free: map[string]int{}}
			all[f[0]] = u
		}
		nodes, _ := strconv.Atoi(f[2])
		cpus := append(strings.Split(f[3], "/"), "", "", "") // allocated/idle/other/total
		nodeMB, _ := strconv.Atoi(f[5])
		u.CPUs, u.NodeCPUs, u.NodeMB = u.CPUs+sched.Count(cpus[3], 0), max(u.NodeCPUs, sched.Count(f[4], 0)), max(u.NodeMB, nodeMB)
		u.nodes += nodes
		gpus := nodes * u.gpusIn(f[6], 0)
		u.GPUs += gpus
		if gpus > 0 {
			u.gpuNodes += nodes
		}
		switch strings.TrimRight(f[1], "~#%") { // which may be powered down; idle* does not respond, idle$ is maintained
		case "idle":
			u.IdleNodes += nodes
			fallthrough
		case "mix":
			u.FreeCPUs += sched.Count(cpus[1], 0)
			u.gpusIn(f[6], nodes)
			u.FreeGPUs += max(0, gpus-nodes*u.gpusIn(f[7], -nodes))
		}
	}
	return all
}

// gpusIn counts the GPUs in a list of generic resources, and adds their types, and as many times as
// said to those that are free.
func (u *partitionUsage) gpusIn(list string, times int) (gpus int) {
	for _, m := range gpuPattern.FindAllStringSubmatch(list, -1) {
		gpus += sched.Count(m[2], 0)
		if m[1] != "" && times != 0 {
			u.free[sched.PlainWord(m[1])] += times * sched.Count(m[2], 0)
		}
		if t := sched.PlainWord(m[1]); t != "" && !slices.Contains(u.types, t) {
			u.types = append(u.types, t)
		}
	}
	return gpus
}
