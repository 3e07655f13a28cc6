package jobwatch

import (
	"context"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/posixsh"
)

// usage adds up the job's steps. Slurm counts only where it gathers accounting.
func (slurm) usage(ctx context.Context, sh *shell, ref string, cpus int) (Usage, error) {
	id, cluster := splitRef(ref)
	script := requireOwnCluster(cluster) + "id=" + posixsh.Quote(id) + `
case $id in *_*) id=$(limit squeue ` + onCluster(cluster) + `-h -j "$id" -O JobID:) || exit ;; esac
`
	if cpus == 0 {
		script += `limit squeue ` + onCluster(cluster) + `-h -j "$id" -o 'cpus|%C'
`
	}
	res, err := slurmQuery(ctx, sh, "sstat", script+`limit sstat -a -n -P -o NTasks,AveCPU,AveRSS -j "$id"`)
	if err != nil {
		return Usage{}, err
	}
	u, ok := parseSstat(string(res.Stdout))
	if !ok {
		return Usage{}, errNoUsage
	}
	u.At = time.Now()
	if u.CPUs == 0 {
		u.CPUs = cpus
	}
	return u, nil
}

// parseSstat adds up lines of tasks, time of CPUs and memory per task.
func parseSstat(out string) (u Usage, ok bool) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) == 2 && f[0] == "cpus" {
			u.CPUs, _ = strconv.Atoi(f[1])
		}
		if len(f) != 3 {
			continue
		}
		tasks, err := strconv.Atoi(f[0])
		if err != nil || tasks < 1 || f[1] == "" {
			continue
		}
		ok = true
		u.CPU += time.Duration(tasks) * slurmDuration(f[1])
		u.Memory += int64(tasks) * sizeInBytes(f[2])
	}
	return u, ok
}
