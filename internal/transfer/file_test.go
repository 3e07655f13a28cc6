package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// twoCopies are two copies of a file with the same target, over connections of their own. The
// first one loses its connection when most of the file is copied, and waits.
type twoCopies struct {
	t             *testing.T
	up            bool
	first, second *server
	source        string
	data          []byte
	target        string
	stopped, goOn chan struct{}
}

func newTwoCopies(t *testing.T, up bool) *twoCopies {
	c := &twoCopies{t: t, up: up, first: newServer(t), second: newServer(t), stopped: make(chan struct{}), goOn: make(chan struct{})}
	c.source, c.target = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	c.first.limit, c.first.cuts, c.first.cutAfter = 1, 1, 40*chunkSize
	if !up {
		c.first.cutAfter = 40_000 // of requests to read
	}
	c.first.redial = sync.OnceFunc(func() {
		close(c.stopped)
		<-c.goOn
	})
	c.data = file(t, c.source, 50*chunkSize)
	return c
}

// copy is one of the two copies, of the file or of its folder.
func (c *twoCopies) copy(over *server, o Options) error {
	o.Sources, o.Target = append(o.Sources, c.source)[:1], filepath.Dir(c.target)
	if c.up {
		o.From = Local()
	} else {
		o.To = Local()
	}
	return over.copy(o)
}

// start begins the first copy, and returns how it ends when it waits.
func (c *twoCopies) start() (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- c.copy(c.first, Options{}) }()
	<-c.stopped
	return done
}

// part is the only one there is.
func (c *twoCopies) part() string {
	c.t.Helper()
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(c.target), partPrefix+"*"))
	if err != nil || len(parts) != 1 {
		c.t.Fatal(parts, err)
	}
	return parts[0]
}

func TestOtherCopy(t *testing.T) {
	for _, up := range []bool{true, false} {
		way := map[bool]string{true: "up", false: "down"}[up]
		t.Run(way+"/is recognised while it writes", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTwoCopies(t, up)
				first := c.start()
				part := c.part()
				go func() { // as a slow copy does
					defer close(c.goOn)
					for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
						if err := os.Chtimes(part, time.Now(), time.Now()); err != nil {
							t.Error("the second copy removed the part:", err)
							return
						}
					}
				}()
				if err := c.copy(c.second, Options{}); !errors.Is(err, ErrOtherCopy) {
					t.Errorf("the second copy: %v", err)
				}
				if err := <-first; err != nil {
					t.Errorf("the first copy: %v", err)
				}
				same(t, c.target, c.data)
			})
		})
		for _, resume := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/takes over from one without a connection, resume %v", way, resume), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newTwoCopies(t, up)
					first := c.start()
					p := new(Progress)
					if err := c.copy(c.second, Options{Resume: resume, Progress: p}); err != nil {
						t.Errorf("the second copy: %v", err)
					}
					if skipped := p.Counts().Skipped; (skipped > 0) != resume {
						t.Errorf("%d bytes were continued", skipped)
					}
					close(c.goOn)
					if err := <-first; !errors.Is(err, ErrOtherCopy) {
						t.Errorf("the first copy: %v", err)
					}
					same(t, c.target, c.data)
					noParts(t, filepath.Dir(c.target))
				})
			})
		}
		t.Run(way+"/spoils the part", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTwoCopies(t, up)
				first := c.start()
				if err := os.Truncate(c.part(), int64(len(c.data)+1)); err != nil {
					t.Fatal(err)
				}
				close(c.goOn)
				if err := <-first; err == nil {
					t.Error("a part of the wrong size was put in place")
				}
				if _, err := os.Stat(c.target); !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			})
		})
		t.Run(way+"/of a folder at once", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTwoCopies(t, up)
				close(c.goOn)
				files := map[string][]byte{"data": c.data}
				dir := filepath.Dir(c.source)
				for i := range 300 {
					name := fmt.Sprint(i)
					files[name] = file(t, filepath.Join(dir, name), 1000*i)
				}
				var both sync.WaitGroup
				for _, s := range []*server{c.first, c.second} {
					both.Go(func() {
						if err := c.copy(s, Options{Sources: []string{dir}}); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				for name, data := range files {
					same(t, filepath.Join(filepath.Dir(c.target), filepath.Base(dir), name), data)
				}
			})
		})
	}
}
