package agent

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
)

// corrected is an announcement as the server's runtime file has it, and when that
// was read.
type corrected struct {
	aim     *aim
	at      time.Time
	finding detect.Finding
}

// correct reads the runtime file of a server whose log leaves doubt, not more often
// than a log is read.
func (p *prober) correct(ctx context.Context, a *aim, since time.Time) detect.Finding {
	limits := &p.session.agent.limits
	if p.checked.aim == a && time.Since(p.checked.at) < limits.Jobs.LogFirst {
		return p.checked.finding
	}
	found := a.finding
	if ep, err := readRuntimeFile(ctx, runner{p.host}, found.RuntimeFile); err == nil {
		found = found.WithRuntime(ep)
	} else if better, ok := a.files.finding(ctx, found, a.node, a.start, time.Since(since) > limits.TokenGrace); ok {
		found = better
	}
	p.checked = corrected{aim: a, at: time.Now(), finding: found}
	return found
}

// runtimeFiles are those in which Jupyter servers of the person say how to reach them.
type runtimeFiles struct {
	runner jobwatch.Runner
	// mine reports whether a server with a process id is the job's own.
	mine  func(ctx context.Context, pid int) (bool, error)
	asked map[string]ownership // by file
}

// ownership is what was found out about a file, and when.
type ownership struct {
	mine bool
	err  error
	at   time.Time
}

// askOwnerAgain is how long a failure to find out stays one: it costs the host more
// than a look at a file.
const askOwnerAgain = time.Minute

// finding corrects what a log says by the newest runtime file since the job's start
// that can be its own. A server bound to a name is on that node; another may be
// anywhere, and is believed once it answers there to the token in the file. One on
// another port than the log announced may be another job's of the same person: it is
// believed only where elsewhere says so, since that port may have been taken, and where
// it is a process of the job's.
func (r *runtimeFiles) finding(ctx context.Context, f detect.Finding, node string, start time.Time, elsewhere bool) (detect.Finding, bool) {
	if start.IsZero() {
		return f, false
	}
	files, err := jobwatch.FindRuntimeFiles(ctx, r.runner, start)
	if err != nil {
		return f, false
	}
	better, found := f, false
	for _, file := range files {
		ep, err := readRuntimeFile(ctx, r.runner, file)
		switch {
		case err != nil || !ep.NeedsNode && !sameNode(ep.Host, node):
		case f.Port != 0 && ep.Port == f.Port:
			return f.WithRuntime(ep), true
		case elsewhere && !found && r.own(ctx, file):
			better, found = f.WithRuntime(ep), true
		}
	}
	return better, found
}

var pidInName = regexp.MustCompile(`server-(\d+)\.json$`)

// own reports whether a file is of the job's own server. What was found out stays so.
func (r *runtimeFiles) own(ctx context.Context, file string) bool {
	if was, known := r.asked[file]; known && (was.err == nil || time.Since(was.at) < askOwnerAgain) {
		return was.mine
	}
	m := pidInName.FindStringSubmatch(file)
	if m == nil {
		return false
	}
	pid, _ := strconv.Atoi(m[1])
	now := ownership{at: time.Now()}
	now.mine, now.err = r.mine(ctx, pid)
	if r.asked == nil {
		r.asked = map[string]ownership{}
	}
	r.asked[file] = now
	return now.mine
}

// doubt is why it cannot be told whose a file is, if that is so.
func (r *runtimeFiles) doubt() error {
	for _, o := range r.asked {
		if errors.Is(o.err, jobwatch.ErrOwnerUnknown) {
			return o.err
		}
	}
	return nil
}

func readRuntimeFile(ctx context.Context, r jobwatch.Runner, path string) (api.Endpoint, error) {
	if path == "" {
		return api.Endpoint{}, &api.Error{Code: api.CodeNotReady, Message: "the log names no runtime file"}
	}
	data, err := jobwatch.ReadFile(ctx, r, path)
	if err != nil {
		return api.Endpoint{}, err
	}
	return detect.ParseRuntimeFile(data)
}

// sameNode reports whether two names are one node's, short or with its domain.
func sameNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}
