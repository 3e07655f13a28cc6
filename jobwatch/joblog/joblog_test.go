package joblog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

// drive is a Runner in memory on which every log has its own name as its text.
type drive struct {
	mu    sync.Mutex
	hangs string // reading this log never ends
	reads []time.Time
}

func (d *drive) Run(ctx context.Context, _ string, stdin []byte) (remote.Result, error) {
	d.mu.Lock()
	d.reads = append(d.reads, time.Now())
	hangs := d.hangs != "" && strings.Contains(string(stdin), d.hangs)
	d.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return remote.Result{}, ctx.Err()
	}
	return jobtest.Files(string(stdin), func(path string) (string, bool) { return path, true }), nil
}

// follow follows ten logs for a while, and returns what was read of each.
func (d *drive) follow(t *testing.T, length time.Duration) (texts [10]string) {
	r := NewReader(remote.On(d), remote.DefaultLimits())
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for i := range texts {
		f := r.NewFollower(FollowOptions{Paths: []string{fmt.Sprintf("/h/slurm-%d.out", i)}})
		f.ReadOften()
		all.Go(func() {
			if err := f.Serve(ctx, func(c Chunk) { texts[i] += string(c.Data) }); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		time.Sleep(70 * time.Millisecond)
	}
	all.Wait()
	return texts
}

// TestBatchTenJobs: the logs of ten new jobs are read by one command a second.
func TestBatchTenJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drive{}
		for i, text := range d.follow(t, 20*time.Second) {
			if want := fmt.Sprintf("/h/slurm-%d.out", i); text != want {
				t.Errorf("of log %d, %q was read", i, text)
			}
		}
		if n := len(d.reads); n < 15 || n > 21 {
			t.Errorf("%d commands in 20 seconds", n)
		}
	})
}

// TestBatchUnreadable: a log that cannot be read holds no other up.
func TestBatchUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drive{hangs: "slurm-3.out"}
		for i, text := range d.follow(t, time.Minute) {
			if text == "" && i != 3 {
				t.Errorf("log %d was never read", i)
			}
		}
	})
}

// TestBatchFollowerEnds: a follower that ends does not fail the reads of others.
func TestBatchFollowerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drive{hangs: "slurm-1.out"}
		b := NewReader(&remote.Shell{Runner: d, Limit: time.Hour}, remote.Limits{LogFirst: time.Second}).batch
		b.next = time.Now().Add(time.Second) // so that both reads are in one command
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := b.read(ctx, []fileRequest{{pattern: "/h/slurm-1.out"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("the read that was given up: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got, err := b.read(t.Context(), []fileRequest{{pattern: "/h/slurm-2.out"}}); err != nil || !got[0].found {
				t.Errorf("the other read: %+v, %v", got, err)
			}
		})
		time.Sleep(2 * time.Second)
		cancel() // a session is taken down while the command runs
		all.Wait()
	})
}

// TestBatchAbandoned: it may be what the command hung at.
func TestBatchAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewReader(&remote.Shell{Runner: &drive{hangs: "slurm-1.out"}, Limit: time.Hour}, remote.Limits{LogFirst: time.Second}).batch
		mine, other := &batchedRead{requests: []fileRequest{{pattern: "/h/slurm-1.out"}}}, &batchedRead{requests: []fileRequest{{pattern: "/h/slurm-2.out"}}}
		b.waiting = []*batchedRead{mine, other}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.runNext(ctx, mine); !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(b.waiting, []*batchedRead{other}) {
			t.Errorf("%v, and %d reads wait", err, len(b.waiting))
		}
	})
}
