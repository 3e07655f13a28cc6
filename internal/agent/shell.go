package agent

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"tunctl/configs"
	"tunctl/internal/api"
)

// isShell reports whether the session's job serves no page: a person works inside it.
func isShell(cfg configs.Session) bool { return cfg.App == configs.ShellApp }

// proveShell has the prober run a command inside a job that serves no page, once it is
// known where the job runs.
func (r *jobRun) proveShell(job api.Job) {
	if job.State != api.JobRunning || job.Node == "" || r.prober.target != nil {
		return
	}
	r.session.show("running a command inside job %s on %s", job.ID, job.Node)
	r.prober.setTarget(&probeTarget{shell: true, job: job.ID, node: job.Node})
}

// runInside runs a command inside the session's job that does nothing.
func (s *session) runInside(ctx context.Context) error {
	node, err := s.jobMachine(ctx, "")
	if err != nil {
		return err
	}
	ch, requests, err := node.OpenChannel(ctx, "session", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ch.Close() })()
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"true"}))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !ok:
		return errors.New("no command may be run there")
	}
	return exitStatus(ctx, requests)
}

// exitStatus waits for the end of a channel's command (RFC 4254, 6.10).
func exitStatus(ctx context.Context, requests <-chan *ssh.Request) error {
	for {
		select {
		case r, open := <-requests:
			var exit struct{ Status uint32 }
			switch {
			case !open:
				return errors.New("the command did not report how it ended")
			case r.Type != "exit-status":
			case ssh.Unmarshal(r.Payload, &exit) == nil && exit.Status == 0:
				return nil
			default:
				return fmt.Errorf("the command `true` ended with status %d", exit.Status)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noPageError is the error for the page of a session that has none.
func (s *session) noPageError() *api.Error {
	return api.Errorf(api.CodeUsage, "session %s has no page: it is for work inside its job", s.name).
		WithHint("`tunctl ssh %s` opens a shell there, `tunctl code %s` an editor", s.name, s.name)
}
