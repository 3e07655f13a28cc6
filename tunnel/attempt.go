package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// attempt is one try to connect to a host.
type attempt struct {
	host   *Host
	pool   *Pool
	log    *slog.Logger
	ask    asker
	banned bool // a ban is suspected: ask the user first
	waited bool // somebody waits for the host, who cannot be asked

	began      time.Time
	unanswered bool // a direct dial got no answer: the server has seen nothing to count

	settings sshconfig.Settings
	identity string // of the connection that the settings lead to
	wire     *wire
	loginAt  time.Time // when the server first saw a login
	answered bool      // the user answered questions of the ssh program
	whySSH   string    // why the ssh program logs in, where the config does not say so
}

func newAttempt(h *Host) *attempt {
	return &attempt{host: h, pool: h.pool, log: h.log, ask: asker{host: h}}
}

// connect dials, checks the host key and logs in.
func (t *attempt) connect(ctx context.Context) (*conn, error) {
	if t.banned {
		if err := t.ask.confirmBan(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.resolve(ctx); err != nil {
		return nil, err
	}
	if c, err := t.sharedOrOwn(ctx); c != nil || err != nil {
		return c, err
	}
	if err := t.checkAccount(); err != nil {
		return nil, err
	}
	if err := t.runBeforeLogin(ctx); err != nil {
		return nil, err
	}
	c, err := t.logIn(ctx)
	if err != nil {
		return nil, err
	}
	c.owner = t.host
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// resolve reads the settings and finds the identity of the connection they lead to.
func (t *attempt) resolve(ctx context.Context) (err error) {
	if t.settings, err = t.pool.Settings(ctx, t.host.name); err != nil {
		return err
	}
	t.showSettings()
	if t.identity, err = t.pool.identity(ctx, &t.settings, t.host.name); err != nil {
		return err
	}
	if !t.host.updateIdentity(t.identity) {
		return fmt.Errorf("%s: %w", t.host.label(), api.ErrDown) // only the users of the old identity wanted it
	}
	return nil
}

// runBeforeLogin runs the config's before_login command, such as one that fetches a
// certificate. It runs only while the user waits: it may open a browser or need a touch.
func (t *attempt) runBeforeLogin(ctx context.Context) error {
	line := t.settings.BeforeLogin
	if line == "" || !t.ask.attended {
		return nil
	}
	t.step("running " + line)
	limit := t.pool.o.Limits.PromptTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := newStderrBuffer()
	cmd := sshconfig.ShellCommand(ctx, line, t.pool.env(ctx))
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	e := &api.Error{Code: api.CodeFailed, Err: failure.Permanent.Wrap(err), Hint: "run the command in a terminal to see what it asks for, then `tunctl login " + t.host.name + "`"}
	e.Message = fmt.Sprintf("before_login = %q failed: %v", line, err)
	if ctx.Err() != nil {
		e.Message = fmt.Sprintf("before_login = %q did not end within %s", line, api.DurationText(limit))
	}
	if text := said.tail(); !text.IsZero() {
		e.Message += "; its output: " + hideLinks(text)
	}
	return e
}

// logIn logs in natively or by the ssh program.
func (t *attempt) logIn(ctx context.Context) (*conn, error) {
	if !t.usesSSHProgram(ctx) {
		c, err := t.logInNatively(ctx)
		if err == nil || t.whySSH == "" {
			return c, err
		}
		t.log.Info("the ssh program logs in instead", "why", t.whySSH)
	}
	return t.logInBySSH(ctx)
}

// logInNatively logs in with x/crypto/ssh.
func (t *attempt) logInNatively(ctx context.Context) (*conn, error) {
	t.step("connecting to " + t.settings.Address())
	raw, via, err := t.reach(ctx)
	if err != nil {
		return nil, err
	}
	c, err := t.handshake(ctx, raw)
	if err != nil {
		return nil, err
	}
	c.via = via
	return c, nil
}

// step records what the try is doing now.
func (t *attempt) step(what string) {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	t.host.facts.trying = what
	t.host.enterLocked()
}

// loginBegins saves that a login begins, before the server counts it: if this process
// ends during the login, the next one waits as long as this one would have.
func (t *attempt) loginBegins(at time.Time) {
	t.loginAt = at
	t.host.saveLogins(func(l *api.Logins) {
		t.host.facts.loggingIn = true
		l.Last = at
	})
}

// setHandshake says which handshake is under way; nil: none.
func (t *attempt) setHandshake(s *handshake) {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	t.host.handshake = s
}

// showSettings records the settings of the try in its host's view.
func (t *attempt) showSettings() {
	h, v := t.host, t.settings.Host()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used, h.outdated, h.conns.ended = t.settings, false, nil
	v.Alias, v.State, v.Cause, v.Hint, v.Since = h.name, h.view.State, h.view.Cause, h.view.Hint, h.view.Since
	h.view = v
}

// classOf is the class of the try's failure. An unknown failure may pass; but after the
// server saw a login it counts as refused, since a lockout is worse than a wait.
func (t *attempt) classOf(err error) failure.Class {
	c := failure.Of(err)
	switch {
	case c != failure.Unknown:
		return c
	case !t.loginAt.IsZero():
		return failure.Refused
	}
	return failure.Passing
}

// checkAccount prevents an automatic login to an account that was never logged in to:
// what Memory says about silent logins is about other accounts.
func (t *attempt) checkAccount() error {
	known := t.pool.o.Memory.Known(t.host.name).Accounts
	if t.ask.attended || len(known) == 0 || slices.Contains(known, t.identity) {
		return nil
	}
	return needsUser(t.host.name, fmt.Sprintf("the settings now lead to %s, where you have not logged in yet", t.identity), nil)
}
