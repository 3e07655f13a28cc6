package slurm

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// Processes queries the daemon of each node for the processes of the job's steps.
func (scheduler) Processes(ctx context.Context, sh *remote.Shell, ref string) ([]int, error) {
	id, cluster := sched.SplitRef(ref)
	res, err := query(ctx, sh, "sstat", setJobID(id, cluster)+`limit sstat -a -i -n -P -j "$id"`)
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(res.Stdout)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		for text := range strings.SplitSeq(f[len(f)-1], ",") {
			if pid, err := strconv.Atoi(text); err == nil && len(f) == 3 {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// setJobID sets id to the number of a job that may be the task of an array. Only the host's own
// cluster is asked further.
func setJobID(id, cluster string) string {
	return requireOwnCluster(cluster) + "id=" + posixsh.Quote(id) + `
case $id in *_*) id=$(limit squeue ` + onCluster(cluster) + `-h -j "$id" -O JobID:) || exit ;; esac
`
}

// StepOutput attaches to the job's newest steps for a moment: their daemon keeps the last
// lines. The program would see an end of sattach's input, so that is kept open until sattach
// was killed.
func (scheduler) StepOutput(ctx context.Context, sh *remote.Shell, ref string) ([]byte, error) {
	id, cluster := sched.SplitRef(ref)
	res, err := query(ctx, sh, "squeue", `command -v sattach >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || exit 127
`+requireOwnCluster(cluster)+`steps=$(limit squeue `+onCluster(cluster)+`-h -s -j `+posixsh.Quote(id)+` -o %i) || exit
for step in $(printf '%s\n' "$steps" | grep -E '^[0-9_+]+\.[0-9]+$' | tail -n `+strconv.Itoa(maxSteps)+`); do
	timeout -s KILL `+strconv.Itoa(stepSeconds+1)+` sh -c 'sleep 60 | timeout -s KILL `+strconv.Itoa(stepSeconds)+` sattach "$1" 2>/dev/null' sh "$step" 2>/dev/null
	echo
done 2>/dev/null | head -c `+strconv.Itoa(stepBytes))
	if res.Exit == 127 {
		return nil, sched.ErrNoSteps
	}
	return res.Stdout, err
}

const (
	maxSteps    = 2       // how many of a job's steps are read, the newest ones
	stepSeconds = 3       // for how long: earlier output arrives at once
	stepBytes   = 1 << 18 // how much of their output is read
)

// Usage adds up the job's steps. Slurm counts only where it gathers accounting.
func (scheduler) Usage(ctx context.Context, sh *remote.Shell, ref string, cpus int) (sched.Usage, error) {
	id, cluster := sched.SplitRef(ref)
	script := setJobID(id, cluster)
	if cpus == 0 {
		script += `limit squeue ` + onCluster(cluster) + `-h -j "$id" -o 'cpus|%C'` + "\n"
	}
	res, err := query(ctx, sh, "sstat", script+`limit sstat -a -n -P -o NTasks,AveCPU,AveRSS -j "$id"`)
	if err != nil {
		return sched.Usage{}, err
	}
	u, ok := parseSstat(string(res.Stdout))
	if !ok {
		return sched.Usage{}, sched.ErrNoUsage
	}
	u.At = time.Now()
	u.CPUs = cmp.Or(u.CPUs, cpus)
	return u, nil
}

// parseSstat adds up lines of tasks, time of CPUs and memory per task.
func parseSstat(out string) (u sched.Usage, ok bool) {
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
		u.CPU += time.Duration(tasks) * parseDuration(f[1])
		u.Memory += int64(tasks) * sched.ParseSize(f[2])
	}
	return u, ok
}
