//go:build unix

package jobwatch

import (
	"errors"
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
		if gpu.IdleNodes != 3 || gpu.Waiting != 2 || !maps.Equal(gpu.FreeTypes, map[string]int{"a100": 2, "h100": 16}) || gpu.Guess {
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
