//go:build linux

package realjobs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
	"tunctl/jobwatch"
)

// testLook looks at a real Slurm, from several login shells.
func testLook(t *testing.T) {
	lab := real.StartWith(t, real.Options{Accounting: true})
	for user, accounts := range map[string][]string{"hpcuser": {"proj1", "proj2"}, "tcshuser": {"proj1"}, "zshuser": {"proj1"}} {
		l := append(login{"-l", user}, labLogin(lab)...)
		look, err := jobwatch.NewWatcher(l, jobwatch.Options{}).Discover(t.Context())
		if err != nil {
			t.Errorf("%s: %v", user, err)
			continue
		}
		var got, partitions []string
		for _, a := range look.Accounts {
			got = append(got, a.Name)
		}
		for _, p := range look.Partitions {
			partitions = append(partitions, p.Name)
		}
		if look.Scheduler != "slurm" || look.User != user || !slices.Equal(got, accounts) || !look.Accounts[0].Default || len(look.Problems) > 0 {
			t.Errorf("%s: %+v", user, look)
		}
		if want := []string{"normal", "low", "lowc", "gpu", "debug"}; !slices.Equal(partitions, want) {
			t.Errorf("%s may use %v, want %v", user, partitions, want)
			continue
		}
		if p := look.Partitions[3]; p.LimitSeconds != 4*3600 || p.GPUs != 2 || !p.GPUOnly || !slices.Equal(p.GPUTypes, []string{"a100"}) || p.NodeMB != 4000 || p.CPUs != 4 {
			t.Errorf("%s: %+v", user, p)
		}
		script := func(s api.JobScript) bool { return s.Path == "/home/"+user+"/jupyter.sh" && s.Job == "jupyterlab" }
		if len(look.Scripts) != 2 || !script(look.Scripts[0]) {
			t.Errorf("%s: scripts %+v", user, look.Scripts)
		}
	}
}

// testFree compares what is free with what sinfo and squeue say: at rest, while jobs use and wait for GPUs, and
// while their node takes no more jobs.
func testFree(t *testing.T) {
	f := fixtureOf(t, real.StartWith(t, real.Options{Accounting: true}))
	differences := func(when string, gpus int) (list []string) {
		t.Helper()
		free, err := jobwatch.NewWatcher(labLogin(f.lab), jobwatch.Options{}).Free(t.Context())
		if err != nil || len(free.Partitions) != 5 || len(free.Problems) > 0 {
			t.Fatalf("%s: %+v, %v", when, free, err)
		}
		said := func(argv ...string) (lines [][]string) {
			out, err := f.lab.As("hpcuser", argv...)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out) {
				lines = append(lines, strings.Split(strings.TrimSpace(line), "|"))
			}
			return lines
		}
		states, waiting := said("sinfo", "-h", "-o", "%R|%D|%t|%C"), said("squeue", "-h", "-t", "PD", "-o", "%P")
		for _, p := range free.Partitions {
			want := api.PartitionUsage{CPUs: p.CPUs, GPUs: p.GPUs, NodeCPUs: p.NodeCPUs, NodeMB: p.NodeMB}
			for _, line := range waiting {
				if line[0] == p.Name {
					want.Waiting++
				}
			}
			for _, line := range states {
				if line[0] == p.Name && (line[2] == "idle" || line[2] == "mix") {
					cpus, _ := strconv.Atoi(strings.Split(line[3], "/")[1])
					want.FreeCPUs += cpus
				}
				if line[0] == p.Name && line[2] == "idle" {
					nodes, _ := strconv.Atoi(line[1])
					want.IdleNodes += nodes
				}
			}
			planned := func(line []string) bool { return line[0] == p.Name && line[2] == "mix-" } // for the job that waits
			if p.GPUs > 0 && !slices.ContainsFunc(states, planned) {
				want.FreeGPUs = gpus
			}
			if p.PartitionUsage != want || p.FreeTypes["a100"] != want.FreeGPUs {
				list = append(list, fmt.Sprintf("%s: %s is %+v, want %+v, beside %v", when, p.Name, p, want, states))
			}
		}
		return list
	}
	compare := func(when string, gpus int) {
		t.Helper()
		list := differences(when, gpus)
		for late := time.Now().Add(wait.Limit); len(list) > 0 && time.Now().Before(late); { // a node's state may change between the answers
			list = differences(when, gpus)
		}
		for _, text := range list {
			t.Error(text)
		}
	}
	compare("at rest", 2)
	uses := f.submit("sleep 600\n", "--partition=gpu", "--gres=gpu:1", "--mem=100")
	f.awaitState(f.watch(uses.ID), api.JobRunning)
	waits := f.submit("sleep 600\n", "--partition=gpu", "--gres=gpu:2", "--mem=100")
	f.awaitState(f.watch(waits.ID), api.JobQueued)
	compare("while a job uses one of them", 1)
	drain := func(state string) {
		if out, err := f.lab.Exec("ctl", "scontrol", "update", "NodeName=cn02", "State="+state, "Reason=test"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	drain("drain")
	defer drain("resume")
	compare("while the node drains", 0)
}
