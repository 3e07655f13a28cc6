package joblog

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/remote"
)

// RuntimeFiles are the files in which the Jupyter servers of one job write how to
// reach them: all there is to read where a job has no log, as under srun and salloc.
// It is not safe for concurrent use.
type RuntimeFiles struct {
	reader *Reader
	runner remote.Runner
	job    api.Job
	owner  Owner
	owners map[string]ownership // by file

	corrected   detect.Finding // the last result of Correct
	correctedAt time.Time
}

// ownership is whether a file is of the job's own server, and when that was asked.
type ownership struct {
	mine bool
	err  error
	at   time.Time
}

// askOwnerAgain is how long a failure to find the owner is remembered: the question
// costs the host more than reading a file.
const askOwnerAgain = time.Minute

// Owner knows whose a process is; jobwatch.Watcher is one.
type Owner interface {
	// OwnsProcess reports whether a process on the job's node is the job's own. It fails with
	// ErrOwnerUnknown if nobody can tell.
	OwnsProcess(ctx context.Context, job api.Job, pid int) (bool, error)
}

// ErrOwnerUnknown means that a server may belong to any of several jobs.
var ErrOwnerUnknown = errors.New("several of your jobs run on this node, and tunctl cannot tell which one the server belongs to: " +
	"redirect the output of the job to a file (> FILE)")

// Find returns the server of the newest runtime file of the job.
func (r *RuntimeFiles) Find(ctx context.Context) (detect.Finding, bool) {
	return r.find(ctx, detect.Finding{}, true)
}

// Correct returns f, corrected by the runtime file that the log names, or else by the
// newest that can be the job's own. With anyPort, the server may listen on another port
// than f has. Files are read no more often than a log.
func (r *RuntimeFiles) Correct(ctx context.Context, f detect.Finding, anyPort bool) detect.Finding {
	if time.Since(r.correctedAt) < r.reader.limits.LogFirst {
		return r.corrected
	}
	if ep, ok := r.read(ctx, f.RuntimeFile); ok {
		f = f.WithRuntime(ep)
	} else if f.RuntimeFile == "" || f.App == "jupyter" { // else it is not among Jupyter's
		f, _ = r.find(ctx, f, anyPort)
	}
	r.corrected, r.correctedAt = f, time.Now()
	return f
}

// Err says so if there is a file whose job cannot be determined.
func (r *RuntimeFiles) Err() error {
	for _, o := range r.owners {
		if errors.Is(o.err, ErrOwnerUnknown) {
			return o.err
		}
	}
	return nil
}

// find corrects f by the newest runtime file since the job's start that can be the
// job's own. A server that is bound to a name is on that node. Any other server may be
// on any node, and has to respond there to the token in the file. A server on another
// port than f has may belong to another job of the same user. It counts only with
// anyPort, since the port in f may have been in use, and only if it is a process of the
// job.
func (r *RuntimeFiles) find(ctx context.Context, f detect.Finding, anyPort bool) (detect.Finding, bool) {
	since := r.job.Start
	if since.IsZero() && r.job.State == api.JobRunning { // its log was faster than the scheduler
		since = r.job.Submitted
	}
	if since.IsZero() {
		return f, false
	}
	files, err := r.reader.runtime.read(ctx, r.runner, r.reader.limits.LogFirst)
	if err != nil {
		return f, false
	}
	better, found := f, false
	for _, file := range files {
		ep := file.endpoint
		switch {
		case file.written.Before(since.Truncate(time.Second)):
		case !ep.NeedsNode && !api.SameNode(ep.Host, r.job.Node):
		case f.Port != 0 && ep.Socket != "": // a server whose port is in use takes another port
		case f.Port != 0 && ep.Port == f.Port:
			return f.WithRuntime(ep), true
		case anyPort && !found && r.own(ctx, file.path):
			better, found = f.WithRuntime(ep), true
		}
	}
	return better, found
}

// runtimeFile is what a Jupyter server wrote about itself.
type runtimeFile struct {
	path     string
	written  time.Time
	endpoint api.Endpoint
}

// runtimeList has the runtime files of the user on one host, which all jobs there share.
type runtimeList struct {
	turn  ctxtime.Mutex // taken while they are read; guards the rest
	files []runtimeFile
	at    time.Time
}

// read returns the files as they were at most maxAge ago.
func (l *runtimeList) read(ctx context.Context, r remote.Runner, maxAge time.Duration) ([]runtimeFile, error) {
	if err := l.turn.Lock(ctx); err != nil {
		return nil, err
	}
	defer l.turn.Unlock()
	if time.Since(l.at) < maxAge {
		return l.files, nil
	}
	began := time.Now()
	files, err := readRuntimeFiles(ctx, r)
	if err == nil {
		l.files, l.at = files, began
	}
	return files, err
}

// readRuntimeFiles reads the runtime files of all Jupyter servers of the user by one
// command, newest first. Those that are not complete are left out.
func readRuntimeFiles(ctx context.Context, r remote.Runner) ([]runtimeFile, error) {
	mark := remote.NewMark()
	res, err := remote.On(r).Plain(ctx, `for d in "$JUPYTER_RUNTIME_DIR" "${XDG_DATA_HOME:-$HOME/.local/share}/jupyter/runtime" "$HOME/Library/Jupyter/runtime"; do
	test -z "$d" || ls -t "$d"/jpserver-*.json "$d"/nbserver-*.json 2>/dev/null
done | head -n 20 | while IFS= read -r f; do
	t=$(stat -L -c %Y "$f" 2>/dev/null || stat -L -f %m "$f") && printf '\n%s %s %s\n' `+mark+` "$t" "$f" && head -c 16384 "$f"
done`)
	if err != nil {
		return nil, err
	}
	var files []runtimeFile
	for part := range strings.SplitSeq(string(res.Stdout), "\n"+mark+" ") {
		header, text, _ := strings.Cut(part, "\n")
		written, path, _ := strings.Cut(header, " ")
		seconds, err := strconv.ParseInt(written, 10, 64)
		if err != nil {
			continue
		}
		if ep, err := detect.ParseRuntimeFile([]byte(text)); err == nil {
			files = append(files, runtimeFile{path: path, written: time.Unix(seconds, 0), endpoint: ep})
		}
	}
	return files, nil
}

func (r *RuntimeFiles) read(ctx context.Context, file string) (api.Endpoint, bool) {
	if file == "" {
		return api.Endpoint{}, false
	}
	data, err := ReadFile(ctx, r.runner, file)
	if err != nil {
		return api.Endpoint{}, false
	}
	ep, err := detect.ParseRuntimeFile(data)
	return ep, err == nil
}

var pidInName = regexp.MustCompile(`server-(\d+)\.json$`)

// own reports whether a file is of the job's own server.
func (r *RuntimeFiles) own(ctx context.Context, file string) bool {
	if was, known := r.owners[file]; known && (was.err == nil || time.Since(was.at) < askOwnerAgain) {
		return was.mine
	}
	m := pidInName.FindStringSubmatch(file)
	if m == nil {
		return false
	}
	pid, _ := strconv.Atoi(m[1])
	now := ownership{at: time.Now()}
	now.mine, now.err = r.owner.OwnsProcess(ctx, r.job, pid)
	r.owners[file] = now
	return now.mine
}
