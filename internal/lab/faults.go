package lab

import (
	"context"
	"fmt"
	"net"
	"time"

	"tunctl/internal/freeport"
)

// Pause freezes the login node: connections stay and nothing moves on them.
func (c *Cluster) Pause() { c.links.pause() }

// Resume undoes Pause.
func (c *Cluster) Resume() { c.links.resume() }

// DropAll cuts every connection to the login node.
func (c *Cluster) DropAll() { c.links.drop() }

// Slow delays all traffic by d in each direction.
func (c *Cluster) Slow(d time.Duration) { c.links.slow(d) }

// Refuse closes the login node's port, or opens it again. Connections stay.
func (c *Cluster) Refuse(refuse bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case refuse && c.listener != nil:
		err := freeport.Close(c.listener)
		c.listener = nil
		return err
	case !refuse && c.listener == nil:
		listener, err := c.listen(c.addr)
		if err != nil {
			return fmt.Errorf("cannot reopen the practice cluster's port: %w", err)
		}
		c.listener = listener
		c.wg.Go(func() { c.accept(listener) })
	}
	return nil
}

// Logins is how many connections have tried to log in so far.
func (c *Cluster) Logins() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logins
}

// Jobs lists every job so far, oldest first.
func (c *Cluster) Jobs() []Job { return c.batch.snapshot() }

// Await waits until a job is over: one that was cancelled takes a moment to end.
func (c *Cluster) Await(ctx context.Context, id string) error {
	_, err := c.batch.await(ctx, id)
	return err
}

// StartJob ends a job's time in the queue.
func (c *Cluster) StartJob(id string) error { return c.batch.unhold(id) }

// KillJob ends a running job's processes, as a crash would.
func (c *Cluster) KillJob(id string) error { return c.batch.stop(id, stopKill) }

// Requeue sends a running job back into the queue, from where it starts again on
// another node.
func (c *Cluster) Requeue(id string) error { return c.batch.stop(id, stopRequeue) }

// FailSubmit lets submissions fail with text and rc; an empty text lets them
// succeed again.
func (c *Cluster) FailSubmit(text string, rc int) { c.batch.failSubmit(text, rc) }

// AllowForwarding lets the login node forward connections, or forbids it.
func (c *Cluster) AllowForwarding(allow bool) { c.noForwarding.Store(!allow) }

// Controller stops the scheduler's server, or starts it again. Jobs run on.
func (c *Cluster) Controller(up bool) { c.batch.controller(up) }

// History lets a PBS server remember jobs that have ended, or forget them, as OpenPBS
// does unless it is told otherwise.
func (c *Cluster) History(keep bool) {
	c.batch.update(func() { c.batch.noHistory = !keep })
}
