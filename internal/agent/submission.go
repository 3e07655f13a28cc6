package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// localPrefix marks a script that lies here and is sent first.
const localPrefix = "local:"

// submission says what to submit for a session, and under which tag.
func (a *Agent) submission(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, tag string) (jobwatch.Submission, error) {
	sub := jobwatch.Submission{Tag: tag, Session: cfg.Name, Args: cfg.Args, Workdir: cfg.Workdir}
	if cfg.Builtin() != "" {
		return a.builtin(ctx, cfg, jobs, sub)
	}
	path, isLocal := strings.CutPrefix(cfg.Submit, localPrefix)
	if !isLocal {
		sub.Script = cfg.Submit
		return sub, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(a.opt.Paths.Config), path) // the agent has no folder of its own
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return sub, &api.Error{
			Code: api.CodeConfig, Message: fmt.Sprintf("the script of [session.%s] cannot be read: %v", cfg.Name, err), Err: err,
			Hint: "a relative path after local: starts at the directory of the config file",
		}
	}
	sub.Content, sub.Base = content, filepath.Base(path)
	return sub, nil
}
