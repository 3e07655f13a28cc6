package agent

import (
	"context"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// corrected is an announcement as the server's runtime file has it, and when that
// was read.
type corrected struct {
	aim     *aim
	at      time.Time
	finding jobwatch.Finding
}

// correct reads the runtime file of a server whose log leaves doubt, not more often
// than a log is read.
func (p *prober) correct(ctx context.Context, a *aim, since time.Time) jobwatch.Finding {
	limits := &p.session.agent.limits
	if p.checked.aim == a && time.Since(p.checked.at) < limits.Jobs.LogFirst {
		return p.checked.finding
	}
	found := a.finding
	if ep, err := readRuntimeFile(ctx, runner{p.host}, found.RuntimeFile); err == nil {
		found = found.WithRuntime(ep)
	} else if better, ok := runtimeFinding(ctx, runner{p.host}, found, a.node, a.start, time.Since(since) > limits.TokenGrace); ok {
		found = better
	}
	p.checked = corrected{aim: a, at: time.Now(), finding: found}
	return found
}

// runtimeFinding corrects what a log says by the newest runtime file since the job's
// start that can be its own. A server bound to a name is on that node; another may be
// anywhere, and is believed once it answers there to the token in the file. One on
// another port than the log announced may be another job's of the same person: it is
// believed only where elsewhere says so, since that port may have been taken.
func runtimeFinding(ctx context.Context, r jobwatch.Runner, f jobwatch.Finding, node string, start time.Time, elsewhere bool) (jobwatch.Finding, bool) {
	if start.IsZero() {
		return f, false
	}
	files, err := jobwatch.FindRuntimeFiles(ctx, r, start)
	if err != nil {
		return f, false
	}
	better, found := f, false
	for _, file := range files {
		ep, err := readRuntimeFile(ctx, r, file)
		switch {
		case err != nil || !ep.NeedsNode && !sameNode(ep.Host, node):
		case f.Port == 0 || ep.Port == f.Port:
			return f.WithRuntime(ep), true
		case elsewhere && !found:
			better, found = f.WithRuntime(ep), true
		}
	}
	return better, found
}

func readRuntimeFile(ctx context.Context, r jobwatch.Runner, path string) (api.Endpoint, error) {
	if path == "" {
		return api.Endpoint{}, &api.Error{Code: api.CodeNotReady, Message: "the log names no runtime file"}
	}
	data, err := jobwatch.ReadFile(ctx, r, path)
	if err != nil {
		return api.Endpoint{}, err
	}
	return jobwatch.ParseRuntimeFile(data)
}

// sameNode reports whether two names are one node's, short or with its domain.
func sameNode(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}
