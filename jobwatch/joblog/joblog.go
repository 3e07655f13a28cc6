// Package joblog reads the files that jobs write on a host: it follows their logs from an offset,
// in parts of limited size, and reads the runtime files of Jupyter servers. Package detect finds
// the server's address in them. It does not know schedulers.
package joblog

import (
	"context"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/remote"
)

// Reader reads the files that the jobs of one host write. Its Followers share their commands, and
// its RuntimeFiles what they read.
type Reader struct {
	limits  remote.Limits
	batch   *readBatch
	runtime runtimeList
}

// NewReader returns the Reader of a host.
func NewReader(sh *remote.Shell, limits remote.Limits) *Reader {
	return &Reader{limits: limits, batch: &readBatch{sh: sh, every: limits.LogFirst, turn: make(chan struct{}, 1)}, runtime: runtimeList{turn: ctxtime.NewMutex()}}
}

// NewFollower returns a Follower of files on the host, with the Reader's limits.
func (r *Reader) NewFollower(o FollowOptions) *Follower {
	o.Limits = r.limits
	f := NewFollower(r.batch.sh.Runner, o)
	f.batch = r.batch
	return f
}

// RuntimeFiles returns the runtime files of a job, which runner reads.
func (r *Reader) RuntimeFiles(runner remote.Runner, job api.Job, owner Owner) *RuntimeFiles {
	return &RuntimeFiles{reader: r, runner: runner, job: job, owner: owner, owners: map[string]ownership{}}
}

// readBatch reads the files of all Followers of a host. Requests that wait at the same time
// share one command, and commands are a while apart: ten sessions that start together cost
// the host as much as one.
type readBatch struct {
	sh    *remote.Shell
	every time.Duration
	turn  chan struct{} // holds a token while one of those who wait runs the command
	next  time.Time     // when the next command may begin; owned by the token's holder

	mu      sync.Mutex
	waiting []*batchedRead
}

// batchedRead is what one Follower asked for. Its result is set before done is closed.
type batchedRead struct {
	requests []fileRequest
	contents []fileContent
	err      error
	done     chan struct{}
}

// batchBytes bounds what one command prints, below what a Runner accepts. A Follower reads
// the rest of a long log alone.
const batchBytes = 4 << 20

// read reads files, together with what others wait for.
func (b *readBatch) read(ctx context.Context, requests []fileRequest) ([]fileContent, error) {
	mine := &batchedRead{requests: requests, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, mine)
	b.mu.Unlock()
	defer func() { // nobody waits for it any more
		b.mu.Lock()
		defer b.mu.Unlock()
		b.waiting = slices.DeleteFunc(b.waiting, func(x *batchedRead) bool { return x == mine })
	}()
	for {
		select {
		case <-mine.done:
			return mine.contents, mine.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case b.turn <- struct{}{}:
		}
		err := b.runNext(ctx, mine)
		<-b.turn
		if err != nil {
			return nil, err
		}
	}
}

// runNext runs the next command, unless mine is done already.
func (b *readBatch) runNext(ctx context.Context, mine *batchedRead) error {
	select {
	case <-mine.done:
		return nil
	default:
	}
	if err := ctxtime.Sleep(ctx, time.Until(b.next)); err != nil {
		return err
	}
	b.next = time.Now().Add(b.every)
	b.mu.Lock()
	batch := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	var all []fileRequest
	for _, r := range batch {
		all = append(all, r.requests...)
	}
	for i := range all {
		all[i].max = min(all[i].max, batchBytes/len(all))
	}
	contents, err := readFiles(ctx, b.sh, all)
	if ctx.Err() != nil { // only this Follower has ended: the next in turn reads for the others
		others := slices.DeleteFunc(batch, func(x *batchedRead) bool { return x == mine })
		b.mu.Lock()
		b.waiting = append(others, b.waiting...)
		b.mu.Unlock()
		return ctx.Err()
	}
	for _, r := range batch {
		if r.err = err; err == nil {
			r.contents, contents = contents[:len(r.requests)], contents[len(r.requests):]
		}
		close(r.done)
	}
	return nil
}
