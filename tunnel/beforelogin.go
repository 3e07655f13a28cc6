package tunnel

import (
	"context"
	"fmt"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// prepare runs the command that the config wants run before a login, such as one
// that fetches a certificate for the day. It is run only while a person waits: it may
// open a browser or ask for a touch.
func (t *attempt) prepare(ctx context.Context) error {
	line := t.settings.BeforeLogin
	if line == "" || !t.attended {
		return nil
	}
	t.host.step("running " + line)
	limit := t.pool.o.Limits.PromptTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := &tail{}
	cmd := sshconfig.ShellCommand(ctx, line, t.pool.env(ctx))
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	e := &api.Error{Code: api.CodeFailed, Err: classPermanent.of(err), Hint: "run the command in a terminal to see what it asks for, then `tunctl login " + t.host.name + "`"}
	e.Message = fmt.Sprintf("before_login = %q failed: %v", line, err)
	if ctx.Err() != nil {
		e.Message = fmt.Sprintf("before_login = %q did not end within %s", line, api.DurationText(limit))
	}
	if text := said.text(); !text.IsZero() {
		e.Message += "; its output: " + text.String()
	}
	return e
}
