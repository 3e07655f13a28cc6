package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// killWait is how long a job may take to end after it was asked to.
const killWait = 2 * time.Second

// run runs a job once, and reports whether it goes back into the queue.
func (b *batch) run(j *job) (again bool) {
	proc, logs, err := b.launch(j)
	if err != nil {
		b.c.log.Warn("practice job did not start", "job", j.ID, "err", err)
		// As Slurm does for an output folder that is not there.
		b.update(func() { j.State, j.Reason, j.Signal, j.Ended = stateFailed, "NonZeroExitCode", 53, time.Now() })
		return false
	}
	b.update(func() { j.pid = proc.pid() })
	why, timedOut := b.watch(j, proc, logs)
	exit, signal := proc.result()
	logs.close()
	if err := os.Remove(b.stepEnvironment(j)); err != nil {
		b.c.log.Warn("the environment of a practice job stays", "job", j.ID, "err", err)
	}
	if err := j.deliver(); err != nil {
		b.c.log.Warn("practice job's output could not be delivered", "job", j.ID, "err", err)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if why == stopRequeue {
		j.State, j.Reason, j.Expected = statePending, "BeginTime", time.Now().Add(b.queueFor)
		j.Restarts++
		j.Started, j.pid = time.Time{}, 0
		return true
	}
	j.Exit, j.Signal, j.Ended, j.Reason = exit, signal, time.Now(), "None"
	switch {
	case timedOut:
		j.State, j.Reason = stateTimeout, "TimeLimit"
	case why == stopCancel || b.c.ctx.Err() != nil:
		j.State = stateCancelled
	case exit != 0 || signal != 0:
		j.State, j.Reason = stateFailed, "NonZeroExitCode"
	default:
		j.State = stateCompleted
	}
	return false
}

// watch waits for the job's own end, its time limit or a request to stop it.
func (b *batch) watch(j *job, proc process, logs *jobLogs) (why stopReason, timedOut bool) {
	why, timedOut, over := b.awaitEnd(j, proc)
	if over {
		return "", false
	}
	b.update(func() { j.State = stateEnding })
	logs.note(b.endMessage(j, why, timedOut))
	if why == stopKill {
		proc.kill()
	} else {
		proc.terminate()
	}
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-proc.done():
	case <-timer.C:
		proc.kill()
		<-proc.done()
	}
	return why, timedOut
}

// awaitEnd waits until the job is over by itself, or has to end and why.
func (b *batch) awaitEnd(j *job, proc process) (why stopReason, timedOut, over bool) {
	b.mu.Lock()
	started := j.Started
	timer := time.NewTimer(time.Until(started.Add(j.limit)))
	b.mu.Unlock()
	defer timer.Stop()
	for {
		select {
		case <-proc.done():
			return "", false, true
		case why = <-j.stops:
			return why, false, false
		case limit := <-j.altered:
			timer.Reset(time.Until(started.Add(limit)))
		case <-timer.C:
			return "", true, false
		case <-b.c.ctx.Done():
			return "", false, false
		}
	}
}

// endMessage is what the batch system writes to the log of a job that it ends.
func (b *batch) endMessage(j *job, why stopReason, timedOut bool) string {
	if b.c.dialect == PBS {
		if timedOut {
			return fmt.Sprintf("=>> PBS: job killed: walltime %d exceeded limit %d\n",
				int(time.Since(j.Started).Seconds()), int(j.limit.Seconds()))
		}
		return ""
	}
	suffix := ""
	switch {
	case timedOut:
		suffix = " DUE TO TIME LIMIT"
	case why == stopRequeue:
		suffix = " DUE TO JOB REQUEUE"
	case why == stopKill:
		return ""
	}
	return fmt.Sprintf("slurmstepd: error: *** JOB %s ON %s CANCELLED AT %s%s ***\n",
		j.ID, j.Node, time.Now().Format(isoTime), suffix)
}

// jobEnv is what the batch system adds to a job's environment.
func (b *batch) jobEnv(j *job) environment {
	b.mu.Lock() // its time limit may be altered as soon as it counts as running
	defer b.mu.Unlock()
	env := environment{"HOSTNAME=" + j.Node, "TUNCTL_PRACTICE_JOB=" + j.ID}
	if b.jupyter {
		env = append(env, "TUNCTL_PRACTICE_JUPYTER=1")
	}
	if b.c.dialect == PBS {
		return append(env, b.pbsEnv(j)...)
	}
	return append(env, slurmEnv(j)...)
}

func slurmEnv(j *job) environment {
	cpus := strconv.Itoa(max(j.cpus, 1))
	env := environment{
		"SLURM_JOB_ID=" + j.ID, "SLURM_JOBID=" + j.ID, "SLURM_JOB_NAME=" + j.Name,
		"SLURM_JOB_NODELIST=" + j.Node, "SLURM_NODELIST=" + j.Node, "SLURMD_NODENAME=" + j.Node,
		"SLURM_JOB_PARTITION=" + j.queue, "SLURM_JOB_ACCOUNT=" + j.account, "SLURM_JOB_USER=" + user,
		"SLURM_CLUSTER_NAME=" + alias, "SLURM_SUBMIT_DIR=" + j.workDir, "SLURM_SUBMIT_HOST=" + loginNode,
		"SLURM_JOB_NUM_NODES=1", "SLURM_NNODES=1", "SLURM_CPUS_ON_NODE=" + cpus, "SLURM_JOB_CPUS_PER_NODE=" + cpus,
		"SLURM_MEM_PER_NODE=" + strconv.Itoa(j.memory()), "SLURM_NODEID=0", "SLURM_PROCID=0",
		"SLURM_JOB_END_TIME=" + strconv.FormatInt(j.Started.Add(j.limit).Unix(), 10),
		"ENVIRONMENT=BATCH",
	}
	if list := j.gpuList(); list != "" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+list, "SLURM_JOB_GPUS="+list, "SLURM_GPUS_ON_NODE="+strconv.Itoa(j.gpus))
	}
	if j.Restarts > 0 {
		env = append(env, "SLURM_RESTART_COUNT="+strconv.Itoa(j.Restarts))
	}
	return env
}

// gpuList is 0,1 for a job with two GPUs.
func (j *job) gpuList() string {
	ids := make([]string, j.gpus)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	return strings.Join(ids, ",")
}

func (b *batch) pbsEnv(j *job) environment {
	cpus := strconv.Itoa(max(j.cpus, 1))
	env := environment{
		"ENVIRONMENT=BATCH", "PBS_ENVIRONMENT=PBS_BATCH", "PBS_JOBID=" + j.ID, "PBS_JOBNAME=" + j.Name,
		"PBS_JOBDIR=" + b.c.Home(), "PBS_QUEUE=" + j.queue, "PBS_NODEFILE=" + j.nodeFile(),
		"PBS_NODENUM=0", "PBS_TASKNUM=1", "NCPUS=" + cpus, "OMP_NUM_THREADS=" + cpus,
		"PBS_O_HOME=" + b.c.Home(), "PBS_O_HOST=" + loginNode, "PBS_O_LANG=C.UTF-8", "PBS_O_LOGNAME=" + user,
		"PBS_O_QUEUE=" + j.queue, "PBS_O_SHELL=/bin/bash", "PBS_O_SYSTEM=Linux", "PBS_O_WORKDIR=" + j.workDir,
	}
	if j.gpus > 0 {
		env = append(env, "CUDA_VISIBLE_DEVICES="+j.gpuList())
	}
	return env
}
