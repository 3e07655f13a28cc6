package jobwatch

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"
)

// usage is what PBS has counted for a running job; its daemon on the node reports it about
// every two minutes.
func (r pbsRecord) usage() (Usage, bool) {
	cput, counted := r["resources_used.cput"]
	if !counted || r["job_state"] != "R" {
		return Usage{}, false
	}
	u := Usage{
		At: time.Now(), CPU: parseClockTime(cput), Elapsed: parseClockTime(r["resources_used.walltime"]),
		Memory: sizeInBytes(r["resources_used.mem"]), MemoryLimit: sizeInBytes(r["Resource_List.mem"]),
	}
	for _, name := range []string{"Resource_List.ncpus", "resources_used.ncpus"} {
		if n, err := strconv.Atoi(r[name]); err == nil && u.CPUs == 0 {
			u.CPUs = n
		}
	}
	return u, true
}

// keepUsage keeps what the jobs of an answer use.
func (p pbs) keepUsage(records []pbsRecord) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	maps.DeleteFunc(p.cache.usages, func(_ string, u Usage) bool { return time.Since(u.At) > usageFor })
	for _, r := range slices.Backward(records) { // of an array's tasks, the first that runs represents it
		for _, id := range []string{r["Job Id"], r["array_id"]} {
			if u, ok := r.usage(); ok && id != "" {
				p.cache.usages[id] = u
			} else {
				delete(p.cache.usages, id)
			}
		}
	}
}

func (p pbs) usage(_ context.Context, _ *shell, id string, _ int) (Usage, error) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	if u, ok := p.cache.usages[id]; ok {
		return u, nil
	}
	return Usage{}, errNoUsage
}
