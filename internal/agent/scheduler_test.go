package agent

import (
	"testing"

	"tunctl/configs"
	"tunctl/jobwatch"
)

func TestScheduler(t *testing.T) {
	sites, err := configs.LoadSites("")
	must(t, err)
	for _, name := range configs.Schedulers() {
		w := jobwatch.NewWatcher(nil, jobwatch.Options{Scheduler: name})
		if got, err := w.Scheduler(t.Context()); err != nil || got != name {
			t.Errorf("%s is watched as %q, %v", name, got, err)
		}
		if site, err := sites.ForHost(configs.Host{}, name); err != nil || site.Scheduler != name {
			t.Errorf("the site of %s is for %q, %v", name, site.Scheduler, err)
		}
	}
}
