package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// attempt is one try to connect to a host.
type attempt struct {
	host     *Host
	pool     *Pool
	log      *slog.Logger
	attended bool   // a person may be asked
	client   string // through which they asked for it
	banned   bool   // a ban is suspected: the person is told first
	lentOnly bool   // no login: at most the person's own connection is ridden

	settings sshconfig.Settings
	identity string // of the connection that the settings lead to
	wire     *wire
	guard    *guard
	loginAt  time.Time  // when the server began to see a login
	denied   *api.Error // why we stopped by ourselves
	answered bool       // a person answered questions of the ssh program
	onlySSH  string     // why the ssh program logs in, where the config does not say so
}

// connect dials, checks the host key and logs in.
func (t *attempt) connect(ctx context.Context) (*conn, error) {
	if t.banned && !t.lentOnly {
		if err := t.confirmBan(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.resolve(ctx); err != nil {
		return nil, err
	}
	if c, err := t.sharedOrOwn(ctx); c != nil || err != nil {
		return c, err
	}
	c, err := t.logIn(ctx)
	if err != nil {
		return nil, err
	}
	c.owner = t.host
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// resolve finds out where the host's name leads now.
func (t *attempt) resolve(ctx context.Context) (err error) {
	if t.settings, err = t.host.settings(ctx); err != nil {
		return err
	}
	t.host.learn(&t.settings)
	if t.identity, err = t.pool.identity(ctx, &t.settings, t.host.name); err != nil {
		return err
	}
	if !t.host.leadsTo(t.identity) {
		return fmt.Errorf("%s: %w", t.host.label(), api.ErrDown) // nobody wanted this one
	}
	return nil
}

// logIn gets a connection of our own, unless the person lends us theirs.
func (t *attempt) logIn(ctx context.Context) (*conn, error) {
	if c := t.lent(ctx); c != nil {
		return c, nil
	}
	if t.lentOnly {
		return nil, t.host.mayAsk()
	}
	if err := t.checkAccount(); err != nil {
		return nil, err
	}
	if err := t.prepare(ctx); err != nil {
		return nil, err
	}
	return t.establish(ctx)
}

// establish logs in by the host's transport.
func (t *attempt) establish(ctx context.Context) (*conn, error) {
	if t.needsSSH(ctx) {
		return t.byMaster(ctx)
	}
	c, err := t.native(ctx)
	if err != nil && t.onlySSH != "" {
		t.log.Info("the ssh program logs in instead", "why", t.onlySSH)
		return t.byMaster(ctx)
	}
	return c, err
}

// native logs in by ourselves.
func (t *attempt) native(ctx context.Context) (*conn, error) {
	t.host.step("connecting to " + t.settings.Address())
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

// share uses the connection of a host that is the same account by another name.
func (t *attempt) share(ctx context.Context, owner *Host) (*conn, error) {
	t.host.step("sharing the connection of " + owner.label())
	if err := t.borrow(ctx, owner, t.identity); err != nil {
		return nil, err
	}
	c, err := owner.current()
	if err != nil {
		return nil, err
	}
	if c.identity != t.identity {
		return nil, errLeadsElsewhere
	}
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// learn shows the settings a try goes by.
func (h *Host) learn(s *sshconfig.Settings) {
	v := s.Host()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used, h.outdated, h.ended = *s, false, nil
	v.Alias, v.State, v.Cause, v.Hint, v.Since = h.name, h.view.State, h.view.Cause, h.view.Hint, h.view.Since
	h.view = v
}

// warn shows something a person should fix, which does not stop the try.
func (t *attempt) warn(text string) {
	t.log.Warn("ssh settings", "warning", text)
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	if !slices.Contains(t.host.view.Warnings, text) {
		t.host.view.Warnings = append(slices.Clip(t.host.view.Warnings), text)
	}
}
