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
func (p *prober) correct(ctx context.Context, a *aim) jobwatch.Finding {
	if p.checked.aim == a && time.Since(p.checked.at) < p.session.agent.limits.Jobs.LogFirst {
		return p.checked.finding
	}
	found := a.finding
	if ep, err := readRuntimeFile(ctx, runner{p.host}, found.RuntimeFile); err == nil {
		found = found.WithRuntime(ep)
	} else if better, ok := runtimeFinding(ctx, runner{p.host}, found, a.node, a.start); ok {
		found = better
	}
	p.checked = corrected{aim: a, at: time.Now(), finding: found}
	return found
}

// runtimeFinding corrects what a log says by the newest runtime file since the job's
// start that can be its own. A server bound to a name is on that node; another may be
// anywhere, and is believed once it answers there to the token in the file.
func runtimeFinding(ctx context.Context, r jobwatch.Runner, f jobwatch.Finding, node string, start time.Time) (jobwatch.Finding, bool) {
	if start.IsZero() {
		return f, false
	}
	files, err := jobwatch.FindRuntimeFiles(ctx, r, start)
	if err != nil {
		return f, false
	}
	for _, file := range files {
		ep, err := readRuntimeFile(ctx, r, file)
		if err == nil && (ep.NeedsNode || sameNode(ep.Host, node)) {
			return f.WithRuntime(ep), true
		}
	}
	return f, false
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
