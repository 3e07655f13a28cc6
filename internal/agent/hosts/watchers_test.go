package hosts

import (
	"context"
	"os"
	"sync"
	"testing"

	"tunctl/internal/dev/wait"
	"tunctl/jobwatch"
)

// watching are the hosts of a config, whose jobs may be watched.
func watching(t *testing.T, config string) *Hosts {
	t.Helper()
	h := hostsAt(t, config)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	h.Start(ctx, &work)
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	return h
}

func use(t *testing.T, h *Hosts, config string) {
	t.Helper()
	if err := os.WriteFile(h.opt.Settings.Config().Path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := h.opt.Settings.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
}

func TestTheWatcherOfAHostNotSeenBeforeIsReturned(t *testing.T) {
	h := watching(t, "[host.mine]\nssh = \"practice\"\n")
	got := make(chan *jobwatch.Watcher, 1)
	go func() { got <- h.Watcher("mine") }()
	if wait.For(t, "it waits for itself", got) == nil {
		t.Error("there is none")
	}
}

func TestAHostWithAnotherSchedulerHasAnotherWatcher(t *testing.T) {
	h := watching(t, "[host.mine]\nscheduler = \"pbs\"\n")
	pbs := h.Watcher("mine")
	if h.Watcher("mine") != pbs {
		t.Error("one host has two watchers")
	}
	use(t, h, "[host.mine]\nscheduler = \"slurm\"\n")
	if h.Watcher("mine") == pbs {
		t.Error("the watcher of before is used")
	}
	use(t, h, "[host.mine]\nscheduler = \"pbs\"\n")
	if h.Watcher("mine") != pbs {
		t.Error("an edit that was undone leaves a watcher behind")
	}
}
