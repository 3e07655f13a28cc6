package joblog

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/remote"
)

// reader collects what a Follower reads, one round at a time.
type reader struct {
	*Follower
	t      *testing.T
	chunks []Chunk
}

func newReader(t *testing.T, r remote.Runner, o FollowOptions) *reader {
	return &reader{Follower: NewFollower(r, o), t: t}
}

// round reads once and returns the new chunks.
func (r *reader) round() []Chunk {
	r.t.Helper()
	r.chunks = nil
	if err := r.read(r.t.Context(), func(c Chunk) { r.chunks = append(r.chunks, c) }); err != nil {
		r.t.Fatal(err)
	}
	return r.chunks
}

// expect reads once and compares the text.
func (r *reader) expects(what, want string, reset bool) {
	r.t.Helper()
	text, wasReset := "", false
	for _, c := range r.round() {
		text += string(c.Data)
		wasReset = wasReset || c.Reset
	}
	if text != want || wasReset != reset {
		r.t.Errorf("%s: read %q (reset %v), want %q (reset %v)", what, text, wasReset, want, reset)
	}
}

// TestFollowerReadsEachByteOnce: a log is followed without missing or repeating a byte.
func TestFollowerReadsEachByteOnce(t *testing.T) {
	m := jobtest.NewMachine(t)
	r := newReader(t, m, FollowOptions{Paths: []string{"~/it's [a] log"}})
	if got := r.round(); len(got) != 0 {
		t.Errorf("read %v of a file that is not there", got)
	}
	m.Write(t, "it's [a] log", "")
	if got := r.round(); len(got) != 1 || len(got[0].Data) != 0 || got[0].Path != m.File("it's [a] log") {
		t.Errorf("the empty file appeared as %+v", got)
	}
	r.expects("still empty", "", false)
	text := ""
	for _, more := range []string{"a", "b\n", strings.Repeat("x", 200), "\n\n", "NUL \x00 and \xff\xfe\n", "no newline"} {
		text += more
		m.Write(t, "it's [a] log", text)
		r.expects("grown", more, false)
		r.expects("unchanged", "", false)
	}
	// Another agent continues where this one stopped.
	from := r.Position()
	if from[0].Offset != int64(len(text)) {
		t.Errorf("position %+v", from)
	}
	m.Write(t, "it's [a] log", text+"more")
	r = newReader(t, m, FollowOptions{Paths: []string{"~/it's [a] log"}, From: from})
	r.expects("resumed", "more", false)
}

// TestFollowerReset: truncation and replacement are noticed.
func TestFollowerReset(t *testing.T) {
	m := jobtest.NewMachine(t)
	r := newReader(t, m, FollowOptions{Paths: []string{"~/log"}})
	m.Write(t, "log", "the first run, long enough\n")
	r.expects("first", "the first run, long enough\n", false)
	m.Write(t, "log", "short\n")
	r.expects("truncated", "short\n", true)
	m.Write(t, "log", "other and longer than it was before\n")
	r.expects("truncated and grown past where we were", "other and longer than it was before\n", true)
	m.Write(t, "log", "other and longer than it was before\nsame file\n")
	r.expects("grown", "same file\n", false)
	if err := os.Rename(m.File("log"), m.File("log.1")); err != nil {
		t.Fatal(err)
	}
	r.expects("rotated away", "", false)
	m.Write(t, "log", "other and longer than it was befork\nsame file\nnew\n")
	r.expects("a new file", "other and longer than it was befork\nsame file\nnew\n", true)
	m.Write(t, "log", "")
	r.expects("emptied", "", true)
	m.Write(t, "log", "again\n")
	r.expects("written again", "again\n", false)
}

// TestFollowerGlob: a glob means the newest file that is not older than the job.
func TestFollowerGlob(t *testing.T) {
	m := jobtest.NewMachine(t)
	start := time.Now().Truncate(time.Second)
	stamp := func(name string, at time.Time) {
		if err := os.Chtimes(m.File(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	m.Write(t, "nb.1.log", "old job\n")
	stamp("nb.1.log", start.Add(-time.Hour))
	pattern := Expand("~/{name}.{id}.lo*", api.Job{Name: "nb"}, "me")
	r := newReader(t, m, FollowOptions{Paths: []string{pattern}, NewerThan: start})
	r.expects("only an old one", "", false)
	m.Write(t, "nb.2.log", "our job\n")
	stamp("nb.2.log", start.Add(time.Second))
	r.expects("ours", "our job\n", false)
	m.Write(t, "nb.3.log", "its next run\n")
	stamp("nb.3.log", start.Add(2*time.Second))
	r.expects("a newer one", "its next run\n", true)
}

// TestFollowerSeveralFiles: several files are read by one command.
func TestFollowerSeveralFiles(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Write(t, "out", "from out\n")
	m.Write(t, "err", "from err\n")
	r := newReader(t, m, FollowOptions{Paths: []string{"~/out", "~/missing", m.File("err")}})
	got := r.round()
	if len(got) != 2 || string(got[0].Data) != "from out\n" || got[1].Path != m.File("err") || len(m.Scripts) != 1 {
		t.Errorf("got %+v by %d commands", got, len(m.Scripts))
	}
}

// TestFollowerHugeLog: of a huge log the ends are read and the middle is searched.
func TestFollowerHugeLog(t *testing.T) {
	m := jobtest.NewMachine(t)
	filler := strings.Repeat("[epoch 1] loss 0.123 and nothing of interest here\n", 1<<15)
	text := "begin\n" + filler + filler + filler + "now at http://cn01:8888/?token=abc\n" + filler + filler + filler + filler + "the end\n"
	m.Write(t, "log", text)
	var got []Chunk
	r := newReader(t, m, FollowOptions{Paths: []string{"~/log"}, Enough: func() bool { return false }})
	got = r.round()
	read := 0
	for _, c := range got {
		read += len(c.Data)
		if want := text[c.Offset : c.Offset+int64(len(c.Data))]; string(c.Data) != want {
			t.Fatalf("at %d: got %.80q, want %.80q", c.Offset, c.Data, want)
		}
		if c.Offset > 0 && text[c.Offset-1] != '\n' {
			t.Errorf("a chunk begins inside a line, at %d", c.Offset)
		}
	}
	if len(got) != 3 || !bytes.HasPrefix(got[0].Data, []byte("begin\n")) || !bytes.HasSuffix(got[1].Data, []byte("the end\n")) {
		t.Fatalf("%d chunks", len(got))
	}
	if string(got[2].Data) != "now at http://cn01:8888/?token=abc\n" {
		t.Errorf("found %q", got[2].Data)
	}
	if read > 2*maxRead || len(m.Scripts) != 3 {
		t.Errorf("read %d bytes by %d commands", read, len(m.Scripts))
	}
	m.Write(t, "log", text+"more\n")
	r.expects("and then it is followed", "more\n", false)

	r = newReader(t, m, FollowOptions{Paths: []string{"~/log"}, Enough: func() bool { return true }})
	if got := r.round(); len(got) != 2 {
		t.Errorf("searched although the ends were enough: %d chunks", len(got))
	}
}

// TestFollowerHole: the hole of a log is no line.
func TestFollowerHole(t *testing.T) {
	m := jobtest.NewMachine(t)
	hole := strings.Repeat("\x00", 4<<20)
	m.Write(t, "log", hole+"now at http://cn01:8888/?token=abc\r"+hole+"the end\n")
	r := newReader(t, m, FollowOptions{Paths: []string{"~/log"}, Enough: func() bool { return false }})
	got := r.round()
	if last := got[len(got)-1]; string(last.Data) != "now at http://cn01:8888/?token=abc\n" || last.Offset != int64(len(hole)) {
		t.Errorf("found %.80q at %d", last.Data, last.Offset)
	}
}

// TestFollowerLongLine: a log of a few megabytes is read whole.
func TestFollowerLongLine(t *testing.T) {
	m := jobtest.NewMachine(t)
	text := strings.Repeat("0123456789abcdef", 3<<16) // no newline for three megabytes
	m.Write(t, "log", text)
	r := newReader(t, m, FollowOptions{Paths: []string{"~/log"}})
	r.expects("whole", text, false)
	var got []byte
	if err := Read(t.Context(), m, "~/lo*", func(c Chunk) { got = append(got, c.Data...) }); err != nil || string(got) != text {
		t.Errorf("ReadLog: %d bytes, %v", len(got), err)
	}
}

// disk is a Runner in memory with one file's size, to test how often it is read.
type disk struct {
	mu    sync.Mutex
	text  string
	there bool
	reads []time.Time
}

func (d *disk) Run(_ context.Context, _ string, stdin []byte) (remote.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads = append(d.reads, time.Now())
	return jobtest.Files(string(stdin), func(string) (string, bool) { return d.text, d.there }), nil
}

// between is how many reads there were in a period.
func (d *disk) between(from time.Time, length time.Duration) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, at := range d.reads {
		if !at.Before(from) && at.Before(from.Add(length)) {
			n++
		}
	}
	return n
}

// TestFollowerPace: the log is read at a polite pace.
func TestFollowerPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := NewFollower(d, FollowOptions{Paths: []string{"/log"}})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		appeared := make(chan time.Time, 1)
		done.Go(func() {
			_ = f.Serve(ctx, func(c Chunk) {
				if len(c.Data) == 0 {
					appeared <- time.Now()
				}
			})
		})
		check := func(what string, length time.Duration, least, most int) {
			t.Helper()
			from := time.Now()
			time.Sleep(length)
			if n := d.between(from, length); n < least || n > most {
				t.Errorf("%s: %d reads in %s, want %d to %d", what, n, length, least, most)
			}
		}
		check("just queued", 9*time.Minute, 35, 46)
		time.Sleep(2 * time.Minute)
		check("queued for ten minutes", 18*time.Minute, 14, 19)
		time.Sleep(2 * time.Minute)
		check("queued for half an hour", 10*time.Hour, 99, 121)
		f.Expect(time.Now().Add(time.Hour))
		time.Sleep(time.Hour - time.Minute)
		check("about to start", 2*time.Minute, 8, 12)
		d.mu.Lock()
		d.there = true
		began := time.Now()
		d.mu.Unlock()
		if seen := <-appeared; seen.Sub(began) > 15*time.Second {
			t.Errorf("the start was seen after %s", seen.Sub(began))
		}
		check("the first minute", time.Minute, 32, 41)
		check("starting", 10*time.Minute, 40, 60)
		f.Settled()
		time.Sleep(time.Minute)
		check("settled", time.Hour, 50, 60)
		f.ReadOften()
		check("a person asked", time.Minute, 32, 42)
		time.Sleep(time.Minute)
		check("settled again", time.Hour, 50, 61)
		cancel()
		done.Wait()
	})
}

// TestFollowerPaceOfANewJob: the log of a new job is looked for every second but not for long.
func TestFollowerPaceOfANewJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := NewFollower(d, FollowOptions{Paths: []string{"/log"}})
		f.ReadOften() // it was just submitted
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { _ = f.Serve(ctx, func(Chunk) {}) })
		began := time.Now()
		time.Sleep(10 * time.Minute)
		if n := d.between(began, 20*time.Second); n < 16 || n > 22 {
			t.Errorf("%d looks in the first 20 seconds", n)
		}
		if n := d.between(began.Add(21*time.Second), 5*time.Minute); n < 20 || n > 26 {
			t.Errorf("%d looks in the five minutes after that", n)
		}
		cancel()
		done.Wait()
	})
}

// TestFollowerClocks: a file with the job's number is its own whatever the clocks say.
func TestFollowerClocks(t *testing.T) {
	m := jobtest.NewMachine(t)
	submitted := time.Now()
	for name, age := range map[string]time.Duration{"nb.7.log": time.Hour, "nb.log": time.Hour, "nb.8.log": 48 * time.Hour} {
		m.Write(t, name, name)
		if err := os.Chtimes(m.File(name), submitted, submitted.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"7.srv": "nb.7.log", "8": ""} {
		r := newReader(t, m, FollowOptions{Paths: []string{"~/nb." + strings.TrimSuffix(id, ".srv") + ".log", "~/nb.log"}, NewerThan: submitted, JobID: id})
		r.expects("the files of job "+id, want, false)
	}
}

// TestFeedSeveralLogs: several logs of a job are read together and forgotten apart.
func TestFeedSeveralLogs(t *testing.T) {
	t.Parallel()
	d := detect.New("")
	feed := Feed(d)
	write := func(source int, path string, offset int64, text string, reset bool) {
		feed(Chunk{Source: source, Path: path, Offset: offset, Data: []byte(text), Reset: reset})
	}
	hint := "JupyterLab will listen on: cn042:23817\n"
	write(0, "out", 0, hint, false)
	write(1, "err", 0, "[I 10:04:11 NotebookApp] http://hostname:8888/?tok", false)
	write(0, "out", int64(len(hint)), "bye\n", false)
	write(1, "err", 50, "en=4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f\n", false)
	got := d.Finding()
	if got.Host != "cn042" || got.Port != 23817 || got.Token.Reveal() != "4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f" {
		t.Errorf("read together: %+v", got)
	}
	write(1, "err.2", 0, "nothing\n", true)
	if got := d.Finding(); !got.Token.IsZero() || got.Port != 23817 {
		t.Errorf("after one was replaced: %+v", got)
	}
}
