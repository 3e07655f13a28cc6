package logs

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
)

// Stream is a log for a client, and which secrets to hide in it.
type Stream struct {
	Reader remote.Runner
	Path   string
	Known  []api.Secret
	// End waits until the job has ended, and says how.
	End     func(context.Context) (string, error)
	secrets bool // are shown
}

// Serve sends the log to the client of a request, redacted unless secrets are requested.
func (s Stream) Serve(w http.ResponseWriter, r *http.Request, limits remote.Limits, log *slog.Logger) {
	s.secrets = r.URL.Query().Get("secrets") != ""
	out := localapi.NewLines(w)
	tail, _ := strconv.Atoi(r.URL.Query().Get("tail"))
	tail = min(tail, maxTail)
	var err error
	if follow := r.URL.Query().Get("follow") != ""; tail > 0 && !follow {
		err = s.sendTail(r.Context(), out, tail)
	} else {
		err = s.send(r.Context(), out, follow, tail, limits)
	}
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

// sendTail sends the end of the log in one chunk, without secrets.
func (s Stream) sendTail(ctx context.Context, out *localapi.Lines, n int) error {
	text, err := joblog.Tail(ctx, s.Reader, s.Path, n)
	if err != nil {
		return err
	}
	return out.Send(api.LogChunk{Path: s.Path, Text: api.Redact(string(text), s.Known...)})
}

// send sends the log. With follow it sends it, or only its last lines if tail is not zero, and
// what is appended, until the job or ctx ends or nobody reads.
func (s Stream) send(ctx context.Context, out *localapi.Lines, follow bool, tail int, limits remote.Limits) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to := &sink{out: out}
	if !s.secrets {
		to.redact = api.NewRedactor(s.Known...)
	}
	each := func(c joblog.Chunk) {
		if err := to.write(c); err != nil {
			cancel(err)
		}
	}
	if !follow {
		err := joblog.Read(ctx, s.Reader, s.Path, each)
		return errors.Join(err, to.flush())
	}
	o := joblog.FollowOptions{Paths: []string{s.Path}, Limits: limits}
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
		if how, err := s.End(ctx); err == nil {
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
		chunk.SetBytes(c.Data)
		return s.out.Send(chunk)
	}
	chunk.Offset -= int64(s.redact.Held())
	text := s.redact.Add(c.Data)
	if len(text) == 0 && len(c.Data) > 0 && !c.Reset {
		return nil
	}
	chunk.SetBytes(text)
	return s.out.Send(chunk)
}

// flush sends what waits for a next chunk, when none continues it.
func (s *sink) flush() error {
	if s.redact == nil || s.redact.Held() == 0 {
		return nil
	}
	chunk := api.LogChunk{Path: s.path, Offset: s.end - int64(s.redact.Held())}
	chunk.SetBytes(s.redact.Flush())
	return s.out.Send(chunk)
}
