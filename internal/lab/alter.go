package lab

import (
	"context"
	"errors"
	"strings"
	"time"
)

// pbsNoPermission is the exit code of a PBS program for a request that only a manager may
// make.
const pbsNoPermission = 159

var errNoPermission = errors.New("only operators may extend a job")

// AllowExtend lets students extend their jobs, as few sites do, or forbids it again.
func (c *Cluster) AllowExtend(allow bool) {
	c.batch.update(func() { c.batch.extendable = allow })
}

// SetLimit sets a job's time limit, as an operator may.
func (c *Cluster) SetLimit(id string, limit time.Duration) error {
	return c.batch.setLimit(id, limit, true)
}

// Age makes jobs that start from now on seem to have run for so long already, so that
// tests need not wait for their end.
func (c *Cluster) Age(by time.Duration) {
	c.batch.update(func() { c.batch.age = by })
}

// TimeOut ends a running job by its time limit.
func (c *Cluster) TimeOut(id string) error {
	j, err := c.batch.find(id)
	if err != nil {
		return err
	}
	c.batch.mu.Lock()
	used := time.Since(j.Started)
	c.batch.mu.Unlock()
	return c.SetLimit(id, used)
}

// alter sets a job's time limit. A student may always shorten it.
func (b *batch) alter(id string, limit time.Duration) error { return b.setLimit(id, limit, false) }

func (b *batch) setLimit(id string, limit time.Duration, operator bool) error {
	j, err := b.find(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case j.Over(), j.State == stateEnding:
		return errFinishedJob
	case limit > j.limit && !b.extendable && !operator:
		return errNoPermission
	case limit > maxLimit && b.limited && !operator:
		return errTooLong
	}
	j.limit = limit
	select {
	case <-j.altered: // nobody has taken the last one yet
	default:
	}
	j.altered <- limit
	return nil
}

// updateJob is scontrol update JobId=ID TimeLimit=TIME.
func (c *call) updateJob(words []string) int {
	set := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		set[strings.ToLower(name)] = value
	}
	id := set["jobid"]
	limit, ok := parseSlurmTime(set["timelimit"])
	if !ok {
		return c.failf(1, "Invalid TimeLimit value")
	}
	switch err := c.c.batch.alter(id, limit); {
	case errors.Is(err, errUnknownJob):
		return c.failf(1, "Invalid job id specified for job %s", id)
	case errors.Is(err, errFinishedJob):
		return c.failf(1, "Job/step already completing or completed for job %s", id)
	case errors.Is(err, errNoPermission):
		return c.failf(1, "Access/permission denied for job %s", id)
	case errors.Is(err, errTooLong):
		return c.failf(1, "Requested time limit is invalid (missing or exceeds some limit) for job %s", id)
	}
	return 0
}

func qalter(_ context.Context, c *call) int {
	options, ids, err := optionsOf("l=", "N=", "A=", "P=").parse(c.args, true)
	if err != nil || len(ids) != 1 || len(options) != 1 {
		return c.failf(2, "usage: qalter [-l resource_list] job_identifier...")
	}
	if c.c.batch.isDown() {
		return c.failf(pbsNoServer, pbsNoReach, "qalter")
	}
	text, ok := strings.CutPrefix(options[0].value, "walltime=")
	limit, parsed := parseWalltime(text)
	if !ok || !parsed {
		return c.failf(pbsBadResource, "qalter: Illegal attribute or resource value Resource_List.walltime")
	}
	switch err := c.c.batch.alter(ids[0], limit); {
	case errors.Is(err, errUnknownJob):
		return c.failf(pbsUnknownJob, "qalter: Unknown Job Id %s", pbsID(ids[0]))
	case errors.Is(err, errFinishedJob):
		return c.failf(pbsFinished, "qalter: Job has finished %s", pbsID(ids[0]))
	case errors.Is(err, errNoPermission):
		return c.failf(pbsNoPermission, "qalter: Unauthorized Request  %s", pbsID(ids[0]))
	case errors.Is(err, errTooLong):
		return c.failf(pbsTooMuch, "qalter: Job violates queue and/or server resource limits %s", pbsID(ids[0]))
	}
	return 0
}
