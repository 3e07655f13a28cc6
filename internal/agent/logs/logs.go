// Package logs is about the log of a session's job: which files may have it, where they are read,
// and how a client gets it, without secrets. Following log files is jobwatch/joblog.
package logs

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
)

// Log is where the log of a session's job is.
type Log struct {
	Config string        // what the config says; "": nothing
	User   string        // the user's name on the host; "": as on this computer
	Host   remote.Runner // runs commands on the host
}

// Path is the job's log: the one of the config, else the one of the scheduler.
func (l Log) Path(job api.Job) string {
	pattern := strings.TrimPrefix(l.Config, configs.LocalPrefix)
	if pattern == "" {
		return job.Log
	}
	name := l.User
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	return joblog.Expand(pattern, job, name)
}

// Reader reads the file at Path: on the host, or on this computer if the config says that the
// host's files are mounted here.
func (l Log) Reader() remote.Runner {
	if strings.HasPrefix(l.Config, configs.LocalPrefix) {
		return remote.Local{}
	}
	return l.Host
}

// Paths are all files that may have the server's address: the log, and other output
// of the job. A log in the config is the only one. The name of a queued job's log may
// still lack the node, as in "%N.out".
func (l Log) Paths(job api.Job) []string {
	log := l.Path(job)
	switch {
	case l.Config != "":
		return []string{log}
	case log == "":
		return job.OtherLogs
	case job.State.Waiting() && strings.Contains(log, "%"):
		return nil
	}
	return append([]string{log}, job.OtherLogs...)
}

// tailLines is how many lines of a failed job's log a message quotes.
const tailLines = 5

// Tail is the end of a job's log for a message; empty if it is not known where that is.
func (l Log) Tail(ctx context.Context, job api.Job) (string, error) {
	path := l.Path(job)
	if path == "" {
		return "", nil
	}
	text, err := joblog.Tail(ctx, l.Reader(), path, tailLines)
	return strings.TrimRight(api.Redact(string(text)), "\n"), err
}

// Stream is a log for a client, and which secrets to hide in it.
type Stream struct {
	Reader remote.Runner
	Path   string
	Known  []api.Secret
	// End waits until the job has ended, and says how. Meanwhile it calls each for every report of the
	// scheduler.
	End  func(ctx context.Context, each func(api.Job)) (string, error)
	Over string // how the job ended; "": not yet, as far as is known
}

// Serve sends the log to the client of a request, redacted unless secrets are requested.
func (s Stream) Serve(w http.ResponseWriter, r *http.Request, limits remote.Limits, log *slog.Logger) {
	out := localapi.NewLines(w)
	err := s.send(r.Context(), out, r.URL.Query(), limits)
	if err != nil && !out.Sent() {
		localapi.Fail(w, err)
		return
	}
	if err != nil {
		log.Debug("the log was not shown completely", "path", s.Path, "err", err)
	}
}

// maxTail is how many lines the end of a log has at most.
const maxTail = 1000

// send sends what a query asks for, see api.LogQuery: the log or, if tail is not zero, its last lines, without
// secrets. With follow it also sends what is appended, until the job or ctx ends or nobody reads.
func (s Stream) send(ctx context.Context, out *localapi.Lines, query url.Values, limits remote.Limits) error {
	tail, _ := strconv.Atoi(query.Get("tail"))
	tail = min(tail, maxTail)
	set := func(name string) bool { return query.Get(name) != "" }
	follow, whole := set("follow"), set("whole")
	if tail > 0 && !follow {
		text, err := joblog.Tail(ctx, s.Reader, s.Path, tail)
		if err != nil {
			return err
		}
		return out.Send(api.LogChunk{Path: s.Path, Text: api.Redact(string(text), s.Known...)})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to := &sink{out: out}
	if !set("secrets") {
		to.redact = api.NewRedactor(s.Known...)
	}
	if set("lines") {
		to.lines = newLiner()
	}
	each := func(c joblog.Chunk) {
		if err := to.write(c); err != nil {
			cancel(err)
		}
	}
	if !follow {
		err := joblog.Read(ctx, s.Reader, s.Path, each)
		if err = errors.Join(err, to.flush()); err == nil && s.Over != "" {
			err = out.Send(api.LogChunk{Path: s.Path, Ended: s.Over})
		}
		return err
	}
	o := joblog.FollowOptions{Paths: []string{s.Path}, Limits: limits, Whole: whole}
	if tail > 0 {
		if from, err := joblog.TailPosition(ctx, s.Reader, s.Path, tail); err == nil { // else the file may appear
			o.From = []joblog.Position{from}
		}
	}
	f := joblog.NewFollower(s.Reader, o)
	f.ReadOften() // the user asked
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel(nil)
	ended := ""
	waiting.Go(func() {
		running := false
		how, err := s.End(ctx, func(job api.Job) {
			if job.State == api.JobRunning && !running { // so its log appears
				running = true
				f.ReadOften()
			}
			if whole {
				_ = out.Send(api.LogChunk{Job: &job}) // a client that has left ends the stream elsewhere
			}
		})
		if err == nil {
			ended = how
			f.Finish()
		}
	})
	if err := f.Serve(ctx, each); err != nil {
		return err
	}
	return errors.Join(to.flush(), out.Send(api.LogChunk{Path: s.Path, Ended: ended}))
}

// sink sends the chunks of a log.
type sink struct {
	out    *localapi.Lines
	redact *api.Redactor // nil: secrets are shown
	lines  *liner        // nil: text is sent
	path   string
	end    int64 // how far the file was read
}

// write sends a chunk, except an end that may be the beginning of a secret: that waits for
// the next chunk. A chunk that does not continue the last begins a new line.
func (s *sink) write(c joblog.Chunk) error {
	if c.Reset || c.Path != s.path || c.Offset != s.end {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.path, s.end = c.Path, c.Offset+int64(len(c.Data))
	chunk := api.LogChunk{Path: c.Path, Offset: c.Offset, Restarted: c.Reset}
	if s.redact == nil {
		return s.send(chunk, c.Data)
	}
	chunk.Offset -= int64(s.redact.Held())
	text := s.redact.Add(c.Data)
	if len(text) == 0 && len(c.Data) > 0 && !c.Reset {
		return nil
	}
	return s.send(chunk, text)
}

// send sends a chunk with a text.
func (s *sink) send(chunk api.LogChunk, text []byte) error {
	if s.lines == nil {
		chunk.SetBytes(text)
		return s.out.Send(chunk)
	}
	if chunk.Restarted {
		s.lines = newLiner()
	}
	chunk.Lines, chunk.Open = s.lines.add(text)
	return s.out.Send(chunk)
}

// flush sends what waits for a next chunk, when none continues it.
func (s *sink) flush() error {
	if s.redact == nil || s.redact.Held() == 0 {
		return nil
	}
	chunk := api.LogChunk{Path: s.path, Offset: s.end - int64(s.redact.Held())}
	return s.send(chunk, s.redact.Flush())
}
