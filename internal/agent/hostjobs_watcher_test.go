package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/home"
	"tunctl/jobwatch"
)

// idleAgent is an agent that serves nobody, with that config.
func idleAgent(t *testing.T, config string) *Agent {
	t.Helper()
	dir := t.TempDir()
	a, err := New(Options{
		Paths:  home.Paths{Config: filepath.Join(dir, "config.toml"), State: dir},
		Limits: PracticeLimits(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	use(t, a, config)
	ctx, cancel := context.WithCancel(context.Background())
	a.ctx = ctx
	t.Cleanup(func() {
		cancel()
		a.work.Wait()
	})
	return a
}

func use(t *testing.T, a *Agent, config string) {
	t.Helper()
	cfg, err := configs.Parse(a.opt.Paths.Config, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.config = cfg
}

func TestTheWatcherOfAHostNotSeenBeforeIsReturned(t *testing.T) {
	a := idleAgent(t, "[host.mine]\nssh = \"practice\"\n")
	got := make(chan *jobwatch.Watcher, 1)
	go func() { got <- a.jobWatcher("mine") }()
	select {
	case w := <-got:
		if w == nil {
			t.Error("there is none")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for itself")
	}
}

func TestAHostWithAnotherSchedulerHasAnotherWatcher(t *testing.T) {
	a := idleAgent(t, "[host.mine]\nscheduler = \"pbs\"\n")
	pbs := a.jobWatcher("mine")
	if a.jobWatcher("mine") != pbs {
		t.Error("one host has two watchers")
	}
	use(t, a, "[host.mine]\nscheduler = \"slurm\"\n")
	if a.jobWatcher("mine") == pbs {
		t.Error("the watcher of before is used")
	}
	use(t, a, "[host.mine]\nscheduler = \"pbs\"\n")
	if a.jobWatcher("mine") != pbs {
		t.Error("an edit that was undone leaves a watcher behind")
	}
}
