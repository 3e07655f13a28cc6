//go:build unix

package lab

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// callWait is how long a caller may take to read its answer, closeWait when the cluster
// ends.
const (
	callWait  = 30 * time.Second
	closeWait = 300 * time.Millisecond
)

// broker answers the calls of the batch system's programs, which real shells run as
// small scripts: each makes a folder with its words, posts its name to a named pipe,
// and waits at another for its exit status.
type broker struct {
	c     *Cluster
	queue *os.File

	mu      sync.Mutex
	waiting map[string]chan struct{} // calls that were asked for their standard input
}

// startBroker opens the queue and serves it until the cluster is closed.
func (c *Cluster) startBroker() error {
	path := filepath.Join(c.callDir(), "queue")
	if err := os.MkdirAll(c.callDir(), 0o700); err != nil {
		return err
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return err
	}
	// Open for writing too, so that it has no end while nobody calls.
	queue, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := &broker{c: c, queue: queue, waiting: map[string]chan struct{}{}}
	c.wg.Go(b.serve)
	c.wg.Go(b.drain)
	return nil
}

// drain ends the broker with the cluster. Waiting callers still get an answer, since they
// would wait for ever; later ones find no folder.
func (b *broker) drain() {
	<-b.c.ctx.Done()
	deadline := time.Now().Add(closeWait)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for b.busy() && time.Now().Before(deadline) {
		<-ticker.C
	}
	_ = b.queue.Close()
	if err := os.RemoveAll(b.c.callDir()); err != nil {
		b.c.log.Warn("practice calls were left behind", "err", err)
	}
}

// busy reports whether any caller, each of which has a folder of its pid, is alive.
func (b *broker) busy() bool {
	entries, _ := os.ReadDir(b.c.callDir())
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool { return callerAlive(entry.Name()) })
}

func callerAlive(name string) bool {
	pid, err := strconv.Atoi(name)
	return err == nil && syscall.Kill(pid, 0) == nil
}

func (b *broker) serve() {
	lines := bufio.NewScanner(b.queue)
	for lines.Scan() {
		name, program, _ := strings.Cut(lines.Text(), " ")
		run := b.c.programs()[program]
		if run == nil || strings.Trim(name, "0123456789") != "" {
			continue
		}
		if !b.resume(name) {
			b.c.wg.Go(func() { b.answer(name, run) })
		}
	}
}

// resume reports to a running call that its standard input has arrived.
func (b *broker) resume(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting, ok := b.waiting[name]
	if ok {
		delete(b.waiting, name)
		close(waiting)
	}
	return ok
}

func (b *broker) answer(name string, run program) {
	dir := filepath.Join(b.c.callDir(), name)
	var out, errs bytes.Buffer
	c := &call{c: b.c, stdout: &out, stderr: &errs}
	c.stdin = &callInput{b: b, name: name, dir: dir}
	if err := c.read(dir); err != nil {
		b.c.log.Debug("practice call is gone", "err", err)
		return
	}
	status := run(b.c.ctx, c)
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "out"), out.Bytes(), 0o600),
		os.WriteFile(filepath.Join(dir, "err"), errs.Bytes(), 0o600),
		b.reply(dir, strconv.Itoa(status)),
	)
	if err != nil { // its caller was killed meanwhile
		b.c.log.Debug("practice call was not waited for", "err", err)
	}
}

// read takes a call from its folder.
func (c *call) read(dir string) error {
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		return err
	}
	c.args = splitAfterEach(string(args), "\x00")
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		return err
	}
	separator := "\n"
	if bytes.IndexByte(env, 0) >= 0 {
		separator = "\x00"
	}
	c.env = splitAfterEach(string(env), separator)
	pwd, err := os.ReadFile(filepath.Join(dir, "dir"))
	c.dir = strings.TrimSuffix(string(pwd), "\n")
	return err
}

func splitAfterEach(text, separator string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, separator), separator)
}

// reply writes a word to where the caller waits, or will in a moment.
func (b *broker) reply(dir, word string) error {
	began := time.Now()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		done, err := os.OpenFile(filepath.Join(dir, "done"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_, err = io.WriteString(done, word+"\n")
			err = errors.Join(err, done.Close())
		}
		// ENXIO: not there yet. EPIPE: just gone, from the answer before.
		notYet := errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EPIPE)
		wait := callWait
		if b.c.ctx.Err() != nil {
			wait = closeWait
		}
		if !notYet || time.Since(began) > wait || !callerAlive(filepath.Base(dir)) {
			return err
		}
		<-ticker.C
	}
}

// callInput is a caller's standard input. It is asked for only when the program
// reads it: a caller's input may never end.
type callInput struct {
	b         *broker
	name, dir string
	text      *bytes.Reader
}

// Read implements io.Reader.
func (i *callInput) Read(p []byte) (int, error) {
	if i.text == nil {
		text, err := i.fetch()
		if err != nil {
			return 0, err
		}
		i.text = bytes.NewReader(text)
	}
	return i.text.Read(p)
}

func (i *callInput) fetch() ([]byte, error) {
	arrived := make(chan struct{})
	i.b.mu.Lock()
	i.b.waiting[i.name] = arrived
	i.b.mu.Unlock()
	defer i.b.resume(i.name) // in any case: pids are reused
	if err := i.b.reply(i.dir, "stdin"); err != nil {
		return nil, err
	}
	select {
	case <-arrived:
		return os.ReadFile(filepath.Join(i.dir, "stdin"))
	case <-i.b.c.ctx.Done():
		return nil, i.b.c.ctx.Err()
	}
}
