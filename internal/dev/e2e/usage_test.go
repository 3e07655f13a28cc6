package e2e

import (
	"context"
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
	g.run("ssh", "jupyter", "for i in 1 2 3 4; do timeout 3600 sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null & echo $! >>burners; done")
	samples, stop := g.looks()
	// A machine that is busy with other tests gives it little.
	busy := g.untilUsed(samples, "busy", func(cpu float64) bool { return cpu > 10 })
	if busy.CPUs != 1 || busy.Memory == 0 || busy.MemoryLimit == 0 {
		g.t.Errorf("measured %+v", busy)
	}
	if len(busy.GPUs) != 1 || *busy.GPUs[0].Percent != 35 || busy.GPUs[0].MemoryTotal != 40<<30 {
		g.t.Errorf("its GPUs are %+v", busy.GPUs)
	}
	g.untilShown("of 1 CPU, memory ", "GPU 0 (NVIDIA A100-SXM4-40GB) 35 %, memory 1.1 GB of 43 GB")
	g.run("ssh", "jupyter", "kill $(cat burners)")
	g.untilUsed(samples, "at rest", func(cpu float64) bool { return cpu < 5 })
	stop()
	for deadline := time.Now().Add(patience); slices.ContainsFunc(g.lab.Processes(node), func(line string) bool { return strings.Contains(line, "tunctl-usage") }); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("nobody looks, and on %s there are %q", node, g.lab.Processes(node))
		}
	}
}

// looks has somebody look at what the job uses until stop is called. A status of its own waits
// three seconds for a sample, which a busy machine may need longer for.
func (g *guest) looks() (samples <-chan api.Usage, stop func()) {
	ctx, cancel := context.WithCancel(g.t.Context())
	all := make(chan api.Usage)
	go func() {
		defer close(all)
		_ = g.client.Usage(ctx, "jupyter", false, func(u api.Usage) { // it ends with ctx
			select {
			case all <- u:
			case <-ctx.Done():
			}
		})
	}()
	return all, cancel
}

// untilMeasured is how long a measurement may take: after one that a busy machine took too long for, the
// agent pauses for five minutes.
const untilMeasured = 5*time.Minute + patience

// untilUsed waits until a measurement inside the job says that it uses its CPUs like that.
func (g *guest) untilUsed(samples <-chan api.Usage, what string, enough func(cpu float64) bool) api.Usage {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), untilMeasured)
	defer cancel()
	for last := (api.Usage{}); ; {
		select {
		case u, more := <-samples:
			if !more {
				g.t.Fatalf("nothing is measured any more after %+v", last)
			}
			if u.Source == api.UsageStep && u.CPUPercent != nil && enough(*u.CPUPercent) {
				return u
			}
			last = u
		case <-ctx.Done():
			g.t.Fatalf("the job was never %s: %+v", what, last)
		}
	}
}

// untilShown waits until the status of the session has these texts.
func (g *guest) untilShown(texts ...string) {
	g.t.Helper()
	for deadline := time.Now().Add(untilMeasured); ; {
		out, _ := g.run("status", "jupyter")
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(out, text) }) {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("the status shows\n%s", out)
		}
	}
}
