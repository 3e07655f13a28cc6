package lab

import (
	"fmt"
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
	logs.note(b.obituary(j, why, timedOut))
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

// obituary is what the batch system writes into the log of a job that it ends.
func (b *batch) obituary(j *job, why stopReason, timedOut bool) string {
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
