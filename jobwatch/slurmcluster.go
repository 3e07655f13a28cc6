package jobwatch

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/posixsh"
)

// Slurm may have several clusters: sbatch -M gpu, or SLURM_CLUSTERS in a person's
// environment, sends a job to another one, which has its own ids, controller and queue. In
// this package a job there has the name api.Job.Ref, "4711;gpu", as in sbatch's answer.

// onCluster is the option that sends a Slurm command to a cluster; empty for the host's own.
func onCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return "-M " + posixsh.Quote(cluster) + " "
}

// requireOwnCluster ends a script with status 127 unless cluster is the host's own: sattach
// and sstat cannot reach others.
func requireOwnCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return `test "$(limit scontrol show config | sed -n 's/^ClusterName *= *//p')" = ` + posixsh.Quote(cluster) + " || exit 127\n"
}

// clusterSet is the set of clusters, besides the host's own, that jobs were sent to.
type clusterSet struct {
	mu    sync.Mutex
	names map[string]bool
}

// add reports whether one of the names is new.
func (c *clusterSet) add(names ...string) (added bool) {
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
		c.names[name], added = true, true
	}
	return added
}

func (c *clusterSet) all() []string {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.names))
}

func (s slurm) addClusters(args []string) bool { return s.clusters.add(clustersInArgs(args)...) }

// clustersInArgs are the clusters that sbatch's arguments name.
func clustersInArgs(args []string) []string {
	var names []string
	for i, word := range args {
		value := ""
		switch {
		case (word == "-M" || word == "--clusters" || word == "--cluster") && i+1 < len(args):
			value = args[i+1]
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
