// Package logs is about the log of a session's job: which files may have it, where they are read,
// and how a client gets it, without secrets. Following log files is jobwatch/joblog.
package logs

import (
	"context"
	"os/user"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
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
	if err != nil {
		return "", err
	}
	return strings.TrimRight(api.Redact(string(text)), "\n"), nil
}
