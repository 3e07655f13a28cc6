package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

// nvidiaSMI makes a stand-in for that program: the lab's GPUs are only pretended.
const nvidiaSMI = `printf '#!/bin/sh\necho "NVIDIA A100-SXM4-40GB, 35, 1024, 40960"\n' >~/shell-venv/bin/nvidia-smi; chmod +x ~/shell-venv/bin/nvidia-smi`

// measures has the job of the session compute, and then rest. While nobody looks, nothing
// measures on its node.
func (g *guest) measures(node string) {
	g.t.Helper()
	g.run("ssh", "jupyter", "for i in 1 2 3 4; do timeout 150 sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null & echo $! >>burners; done")
	// A machine that is busy with other tests gives it little.
	busy := g.untilUsed("busy", func(cpu float64) bool { return cpu > 10 })
	if busy.Source != api.UsageStep || busy.CPUs != 1 || busy.Memory == 0 || busy.MemoryLimit == 0 {
		g.t.Errorf("measured %+v", busy)
	}
	if len(busy.GPUs) != 1 || *busy.GPUs[0].Percent != 35 || busy.GPUs[0].MemoryTotal != 40<<30 {
		g.t.Errorf("its GPUs are %+v", busy.GPUs)
	}
	if out, _ := g.run("status", "jupyter"); !strings.Contains(out, "of 1 CPU, memory ") || !strings.Contains(out, "GPU 0 (NVIDIA A100-SXM4-40GB) 35 %, memory 1.1 GB of 43 GB") {
		g.t.Errorf("the status shows\n%s", out)
	}
	g.run("ssh", "jupyter", "kill $(cat burners)")
	g.untilUsed("at rest", func(cpu float64) bool { return cpu < 5 })
	for deadline := time.Now().Add(patience); slices.ContainsFunc(g.lab.Processes(node), func(line string) bool { return strings.Contains(line, "tunctl-usage") }); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("nobody looks, and on %s there are %q", node, g.lab.Processes(node))
		}
	}
}

// untilUsed waits until the job uses its CPUs like that.
func (g *guest) untilUsed(what string, enough func(cpu float64) bool) (u api.Usage) {
	g.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		out, _ := g.run("status", "jupyter", "--json", "--refresh")
		var s api.Session
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			g.t.Fatalf("%v\n%s", err, out)
		}
		if s.Usage != nil && s.Usage.CPUPercent != nil && enough(*s.Usage.CPUPercent) {
			return *s.Usage
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("the job was never %s: %s", what, out)
		}
	}
}
