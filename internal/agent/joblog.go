package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/localapi"
	"tunctl/internal/api"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// tailLines is how many lines of a failed job's log a message quotes.
const tailLines = 5

// logFiles say where the job of a session writes: as its config says, else as the scheduler does.
type logFiles struct {
	pattern string // of the config
	host    *tunnel.Host
}

func (s *session) logFiles() logFiles {
	cfg := s.config()
	return logFiles{cfg.Log, s.agent.pool.Host(cfg.Host)}
}

// path is the job's log.
func (l logFiles) path(job api.Job) string {
	pattern := strings.TrimPrefix(l.pattern, configs.LocalPrefix)
	if pattern == "" {
		return job.Log
	}
	return joblog.Expand(pattern, job, l.user())
}

// reader reads the file at path: on the host, or on this computer if the config
// says that the host's files are mounted here.
func (l logFiles) reader() remote.Runner {
	if strings.HasPrefix(l.pattern, configs.LocalPrefix) {
		return remote.Local{}
	}
	return hosts.Runner{Host: l.host}
}

// paths are all files that may have the server's address: the log, and other output
// of the job. A log in the config is the only one. The name of a queued job's log may
// still lack the node, as in "%N.out".
func (l logFiles) paths(job api.Job) []string {
	log := l.path(job)
	switch {
	case l.pattern != "":
		return []string{log}
	case log == "":
		return job.OtherLogs
	case job.State.Waiting() && strings.Contains(log, "%"):
		return nil
	}
	return append([]string{log}, job.OtherLogs...)
}

// user is the person's user name on the host.
func (l logFiles) user() string {
	if u := l.host.Status().User; u != "" {
		return u
	}
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// tail is the end of a job's log for a message; empty if it has none.
func (l logFiles) tail(ctx context.Context, job api.Job) (string, error) {
	path := l.path(job)
	if path == "" {
		return "", nil
	}
	text, err := joblog.Tail(ctx, l.reader(), path, tailLines)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(api.Redact(string(text)), "\n"), nil
}

// jobLogSource is the log of a job as the scheduler reports it.
func (a *server) jobLogSource(ctx context.Context, host, id string) (logSource, error) {
	job, err := a.hosts.Job(ctx, host, id)
	if err != nil {
		return logSource{}, err
	}
	path := job.Log
	if path == "" && len(job.OtherLogs) > 0 {
		path = job.OtherLogs[0]
	}
	if path == "" {
		return logSource{}, api.Errorf(api.CodeNotReady, "no readable log for job %s, which is %s", job.ID, job.State).
			WithHint("%s", job.Hint)
	}
	return logSource{reader: hosts.Runner{Host: a.pool.Host(host)}, path: path}, nil
}

// handleLog streams the log of a session's job, or of any job of the person, redacted unless
// secrets are requested.
func (a *server) handleLog(w http.ResponseWriter, r *http.Request) {
	var src logSource
	var err error
	if session := r.PathValue("name"); session != "" {
		src, err = a.logSource(session)
	} else {
		src, err = a.jobLogSource(r.Context(), r.PathValue("host"), r.PathValue("id"))
	}
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	a.sendLog(w, r, src)
}

func (a *server) sendLog(w http.ResponseWriter, r *http.Request, src logSource) {
	src.secrets = r.URL.Query().Get("secrets") != ""
	out := localapi.NewLines(w)
	tail, _ := strconv.Atoi(r.URL.Query().Get("tail"))
	tail = min(tail, maxTail)
	var err error
	if follow := r.URL.Query().Get("follow") != ""; tail > 0 && !follow {
		err = src.sendTail(r.Context(), out, tail)
	} else {
		err = src.send(r.Context(), out, follow, tail, a.limits.Jobs)
	}
	if err != nil && !out.Sent() {
		localapi.Fail(w, err)
		return
	}
	if err != nil {
		a.log.Debug("the log was not shown completely", "path", src.path, "err", err)
	}
}

// logSource is a log, and which secrets to hide in it.
type logSource struct {
	reader  remote.Runner
	path    string
	known   []api.Secret
	secrets bool
}

func (a *server) logSource(name string) (logSource, error) {
	s, err := a.sessions.find(name)
	if err != nil {
		return logSource{}, err
	}
	if !s.hasJob() {
		return logSource{}, s.onlyForwardsError()
	}
	known := s.known()
	job := cmp.Or(known.Job, a.store.Session(name).Current().Job)
	if job == nil {
		return logSource{}, api.Errorf(api.CodeNotReady, "session %q has no job, so there is no log", name).
			WithHint("`tunctl up %s` starts it", name)
	}
	files := s.logFiles()
	src := logSource{reader: files.reader(), path: files.path(*job)}
	if known.Endpoint != nil {
		src.known = known.Endpoint.Secrets()
	}
	over, remote := src.reader.(hosts.Runner)
	switch {
	case src.path == "":
		return src, api.Errorf(api.CodeNotReady, "log path of job %s is not known yet", job.ID).
			WithHint("%s",
				cmp.Or(job.Hint, fmt.Sprintf("the job is %s; log = \"~/{name}.{id}.log\" in [session.%s] sets the path", job.State, name)))
	case remote && over.Host.Status().State != api.HostUp:
		return src, hosts.NotConnected(s.host(), ", where the log is")
	}
	return src, nil
}

// maxTail is how many lines the end of a log has at most.
const maxTail = 1000

// sendTail sends the end of the log in one chunk, without secrets.
func (src logSource) sendTail(ctx context.Context, out *localapi.Lines, n int) error {
	text, err := joblog.Tail(ctx, src.reader, src.path, n)
	if err != nil {
		return err
	}
	return out.Send(api.LogChunk{Path: src.path, Text: api.Redact(string(text), src.known...)})
}

// send sends the log. With follow it sends it, or only its last lines if tail is not zero, and
// what is appended, until ctx ends or nobody reads.
func (src logSource) send(ctx context.Context, out *localapi.Lines, follow bool, tail int, limits remote.Limits) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := &logSink{out: out}
	if !src.secrets {
		sink.redact = api.NewRedactor(src.known...)
	}
	each := func(c joblog.Chunk) {
		if err := sink.write(c); err != nil {
			cancel(err)
		}
	}
	if !follow {
		err := joblog.Read(ctx, src.reader, src.path, each)
		return errors.Join(err, sink.flush())
	}
	o := joblog.FollowOptions{Paths: []string{src.path}, Limits: limits}
	if tail > 0 {
		if from, err := joblog.TailPosition(ctx, src.reader, src.path, tail); err == nil { // else the file may appear
			o.From = []joblog.Position{from}
		}
	}
	f := joblog.NewFollower(src.reader, o)
	f.ReadOften() // a person asked
	return f.Serve(ctx, each)
}

// logSink sends the chunks of a log.
type logSink struct {
	out    *localapi.Lines
	redact *api.Redactor // nil: secrets are shown
	path   string
	end    int64 // how far the file was read
}

// write sends a chunk, except an end that may be the beginning of a secret: that waits for
// the next chunk. A chunk that does not continue the last begins a new line.
func (s *logSink) write(c joblog.Chunk) error {
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
func (s *logSink) flush() error {
	if s.redact == nil || s.redact.Held() == 0 {
		return nil
	}
	chunk := api.LogChunk{Path: s.path, Offset: s.end - int64(s.redact.Held())}
	chunk.SetBytes(s.redact.Flush())
	return s.out.Send(chunk)
}
