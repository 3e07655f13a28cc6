package jobwatch

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Slurm may have several clusters: sbatch -M gpu, or SLURM_CLUSTERS in a person's
// environment, sends a job to another one, which has ids, a controller and a queue of
// its own. Within this package a job there is called by api.Job.Ref, "4711;gpu", as
// sbatch itself puts it.

// onCluster is the option that makes a command of Slurm's speak to a cluster; none for
// the host's own.
func onCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return "-M " + quote(cluster) + " "
}

// hereOnly ends a script with status 127 unless cluster is the host's own: sattach and
// sstat know no other.
func hereOnly(cluster string) string {
	if cluster == "" {
		return ""
	}
	return `test "$(limit scontrol show config | sed -n 's/^ClusterName *= *//p')" = ` + quote(cluster) + " || exit 127\n"
}

// clusterSet are the clusters, besides the host's own, that jobs were sent to.
type clusterSet struct {
	mu    sync.Mutex
	names map[string]bool
}

// add reports whether there is a new one among the names.
func (c *clusterSet) add(names ...string) (news bool) {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if name == "" || c.names[name] {
			continue
		}
		if c.names == nil {
			c.names = map[string]bool{}
		}
		c.names[name], news = true, true
	}
	return news
}

func (c *clusterSet) all() []string {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.names))
}

func (s slurm) include(words []string) bool { return s.clusters.add(clusterWords(words)...) }

// clusterWords are the clusters that an option of sbatch's names.
func clusterWords(words []string) []string {
	var names []string
	for i, word := range words {
		value := ""
		switch {
		case (word == "-M" || word == "--clusters" || word == "--cluster") && i+1 < len(words):
			value = words[i+1]
		case strings.HasPrefix(word, "--clusters=") || strings.HasPrefix(word, "--cluster="):
			_, value, _ = strings.Cut(word, "=")
		case strings.HasPrefix(word, "-M") && len(word) > 2:
			value = word[2:]
		}
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" && name != "all" {
				names = append(names, name)
			}
		}
	}
	return names
}
