//go:build unix

package jobwatch

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

func TestFree(t *testing.T) {
	t.Parallel()
	m := jobtest.NewMachine(t)
	m.Program(t, "scontrol", `echo scontrol >>"$HOME/queries"
case $* in *partition*)
	echo "PartitionName=long AllowGroups=ALL Default=YES MaxTime=2-00:00:00 State=UP"
	echo "PartitionName=gpu AllowGroups=ALL MaxTime=4:00:00 State=UP"
	echo "PartitionName=short AllowGroups=ALL MaxTime=1:00:00 State=UP"
	echo "PartitionName=staff AllowGroups=staff-only MaxTime=1:00:00 State=UP"
esac`)
	m.Program(t, "sinfo", `echo sinfo >>"$HOME/queries"
echo 'long|alloc|2|128/0/0/128|64|256000|(null)|gpu:0|'
echo 'gpu|mix|2|64/64/0/128|64|512000|gpu:a100:4(S:0-1)|gpu:a100:3(IDX:0-2)|'
echo 'gpu|idle|3|0/192/0/192|64|512000|gpu:h100:4|gpu:h100:0(IDX:N/A)|'
echo 'gpu|idle*|1|0/64/0/64|64|512000|gpu:h100:4|gpu:h100:0(IDX:N/A)|'
echo 'short|idle~|5|0/320/0/320|64|256000|(null)|gpu:0|'`)
	m.Program(t, "squeue", `echo squeue >>"$HOME/queries"
printf 'gpu\ngpu\nlong,short\nlong\n'`)
	m.Program(t, "sacctmgr", `:`)
	w := NewWatcher(m, Options{Scheduler: slurmName})
	for range 3 { // asked once
		free, err := w.Free(t.Context())
		if err != nil || strings.Join(names(free.Partitions), " ") != "short gpu long" {
			t.Fatalf("%v, %v", names(free.Partitions), err)
		}
		short, gpu, long := free.Partitions[0], free.Partitions[1], free.Partitions[2]
		if short.IdleNodes != 5 || short.Waiting != 1 || long.Waiting != 2 || long.IdleNodes != 0 {
			t.Errorf("%+v, %+v", short, long)
		}
		if gpu.IdleNodes != 3 || gpu.Waiting != 2 || gpu.FreeCPUs != 64+192 || !maps.Equal(gpu.FreeTypes, map[string]int{"a100": 2, "h100": 12}) || gpu.Guess {
			t.Errorf("%+v", gpu)
		}
	}
	if n := len(strings.Fields(m.Read(t, "queries"))); n != 4 {
		t.Errorf("%d queries: %s", n, m.Read(t, "queries"))
	}
	if _, fresh := w.KnownFree(); !fresh {
		t.Error("the answer is not kept")
	}
	silent := jobtest.NewMachine(t)
	silent.Program(t, "scontrol", "exit 1")
	if _, err := NewWatcher(silent, Options{Scheduler: slurmName}).Free(t.Context()); !errors.Is(err, remote.ErrNoAnswer) {
		t.Errorf("%v", err)
	}
}

// TestFreeForms has the forms of Slurm, PBS and Grid Engine in which a node is only seemingly free.
func TestFreeForms(t *testing.T) {
	read := func(scheduler, parts string) api.Look {
		return readDiscovery("MARK", "\nMARK person\n"+scheduler+"\nann\n/home/ann\nann\n"+parts)
	}
	slurm := read(slurmName, "\nMARK partitions\nPartitionName=gpu State=UP MaxTime=UNLIMITED\n\nMARK nodes\n"+
		"gpu|idle$|1|0/64/0/64|64|512000|gpu:a100:4|gpu:a100:0(IDX:N/A)|\n"+ // maintained
		"gpu|mix-|1|32/32/0/64|64|512000|gpu:a100:4|gpu:a100:1(IDX:0)|\n"+ // planned for a job of more priority
		"gpu|resv|1|0/64/0/64|64|512000|gpu:a100:4|gpu:a100:0(IDX:N/A)|\n"+
		"gpu|down*|1|0/0/64/64|64|512000|gpu:a100:4|gpu:a100:0(IDX:N/A)|\n"+
		"gpu|idle~|1|0/64/0/64|64|512000|gpu:a100:4|gpu:a100:0(IDX:N/A)|\n") // powered down
	if p := slurm.Partitions[0]; p.CPUs != 5*64 || p.GPUs != 5*4 || p.IdleNodes != 1 || p.FreeCPUs != 64 || p.FreeGPUs != 4 || p.FreeTypes["a100"] != 4 {
		t.Errorf("%+v", p)
	}
	queue := func(name, kind, more string, waiting int) string {
		return fmt.Sprintf("Queue: %s\n    queue_type = %s\n    state_count = Transit:0 Queued:%d Held:2 Waiting:1 Running:1 Exiting:0 Begun\n\t:0 \n%s    enabled = True\n    started = True\n\n", name, kind, waiting, more)
	}
	pbs := read(pbsName, "\nMARK queues\n"+queue("normal", "Route", "    route_destinations = q1,g1\n", 1)+
		queue("q1", "Execution", "    from_route_only = True\n    resources_max.walltime = 24:00:00\n", 30)+
		queue("g1", "Execution", "    from_route_only = True\n    resources_max.walltime = 2:00:00\n", 5))
	if q := pbs.Partitions; len(q) != 1 || q[0].Waiting != 36 || q[0].LimitSeconds != 24*3600 {
		t.Errorf("%+v", q)
	}
	ge := read(gridEngineName, "\nMARK queues\n"+
		"all.q@cn01 BIP 0/4/4 0.98 lx-amd64\n\thc:slots=0\n\thc:gpu=2\n\tqf:qname=all.q\n"+ // no slot for the GPUs
		"gpu.q@cn01 BIP 0/0/2 0.98 lx-amd64\n\thc:slots=0\n\thc:gpu=2\n\tqf:qname=gpu.q\n"+ // whose host is full
		"login.q@cn02 I 0/0/4 0.98 lx-amd64\n\tqf:qname=login.q\n"+
		"old.q@cn02 BIP 0/0/4 0.98 lx-amd64 a\n\tqf:qname=old.q\n"+
		"used.q@cn02 BIP 0/1/4 0.98 lx-amd64 d\n\thc:gpu=0\n\tqf:qname=used.q\n"+
		"more.q@cn03 BIP 0/1/4 0.98 lx-amd64\n\thc:slots=2\n\tqf:qname=more.q\n")
	for _, q := range ge.Partitions {
		if want := map[string]int{"more.q": 2}[q.Name]; q.FreeCPUs != want || q.FreeGPUs != 0 || q.IdleNodes != 0 || q.Name == "used.q" && q.GPUs == 0 {
			t.Errorf("%+v", q)
		}
	}
}

func TestFreeGuess(t *testing.T) {
	queues := "Queue: gpu\n    queue_type = Execution\n    state_count = Transit:0 Queued:7 Held:0 Waiting:1 Running:1 Exiting:0\n    enabled = True\n    started = True\n"
	pbs := readDiscovery("MARK", "\nMARK person\n"+pbsName+"\nann\n/home/ann\nann\n\nMARK queues\n"+queues+
		"\nMARK nodes\nx1 free 0 0 0 251gb/251gb 64/64 0/0 4/4 --\nx2 free 1 1 0 120gb/251gb 60/64 0/0 3/4 13\n")
	if want := (api.PartitionUsage{CPUs: 128, FreeCPUs: 124, GPUs: 8, FreeGPUs: 7, NodeCPUs: 64, NodeMB: 251 << 10, IdleNodes: 1, Guess: true}); pbs.Cluster != want || pbs.Partitions[0].Waiting != 7 {
		t.Errorf("%+v", pbs)
	}
	ge := readDiscovery("MARK", "\nMARK person\n"+gridEngineName+"\nann\n/home/ann\nann\n\nMARK queues\n"+
		"all.q@cn01   BIP   0/4/4   0.98  lx-amd64\n\tqf:qname=all.q\nall.q@cn02   BIP   0/0/4   0.98  lx-amd64\n\tqf:qname=all.q\n\thc:gpu=2\n\nMARK waiting\n12\n")
	if q := ge.Partitions[0]; q.IdleNodes != 1 || q.FreeCPUs != 4 || q.FreeGPUs != 2 || !q.Guess || ge.Cluster.Waiting != 12 {
		t.Errorf("%+v", ge)
	}
}
