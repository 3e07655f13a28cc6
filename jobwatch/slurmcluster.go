package jobwatch

import (
	"slices"
	"strings"

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

// addCluster makes queries include a cluster, and reports whether it is new.
func (s slurm) addCluster(name string) bool {
	if name == "" || name == "all" {
		return false
	}
	_, known := s.clusters.LoadOrStore(name, true)
	return !known
}

func (s slurm) addClusters(args []string) (added bool) {
	for _, o := range slurmKind.directives.options(args) {
		if o.name != "clusters" && o.name != "cluster" {
			continue
		}
		for name := range strings.SplitSeq(o.value, ",") {
			added = s.addCluster(strings.TrimSpace(name)) || added
		}
	}
	return added
}

// otherClusters are the clusters, besides the host's own, that jobs were sent to.
func (s slurm) otherClusters() []string {
	var names []string
	s.clusters.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return names
}
