package tunnel

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"tunctl/internal/api"
)

// attempt is one try to connect to a host.
type attempt struct {
	host     *Host
	pool     *Pool
	log      *slog.Logger
	attended bool // a person may be asked
	banned   bool // a ban is suspected: the person is told first
	lentOnly bool // no login: at most the person's own connection is ridden

	settings Settings
	wire     *wire
	guard    *guard
	loginAt  time.Time  // when the server began to see a login
	denied   *api.Error // why we stopped by ourselves
	onlySSH  string     // why the ssh program logs in, where the config does not say so
}

// connect dials, checks the host key and logs in.
func (t *attempt) connect(ctx context.Context) (*conn, error) {
	if t.banned && !t.lentOnly {
		if err := t.confirmBan(ctx); err != nil {
			return nil, err
		}
	}
	s, err := t.pool.resolve(ctx, t.host.dest)
	if err != nil {
		return nil, err
	}
	if t.host.via != nil {
		s.ProxyJump, s.ProxyCommand = t.host.via, ""
	}
	t.pool.o.Preset(t.host.name, &s)
	t.settings = s
	t.host.learn(&t.settings)
	if owner := t.pool.owner(t.host, s.key()); owner != t.host {
		return t.share(ctx, owner)
	}
	c, err := t.logIn(ctx)
	if err != nil {
		return nil, err
	}
	c.owner = t.host
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// logIn gets a connection of our own, unless the person lends us theirs.
func (t *attempt) logIn(ctx context.Context) (*conn, error) {
	if c := t.lent(ctx); c != nil {
		return c, nil
	}
	if t.lentOnly {
		return nil, t.host.mayAsk()
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
	t.host.step("dialling " + t.settings.address())
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
	t.host.step("sharing the connection of " + owner.name)
	if err := t.borrow(ctx, owner); err != nil {
		return nil, err
	}
	c, err := owner.current()
	if err != nil {
		return nil, err
	}
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// learn shows the settings a try goes by.
func (h *Host) learn(s *Settings) {
	v := s.Host()
	h.mu.Lock()
	defer h.mu.Unlock()
	v.Alias, v.State, v.Cause, v.Hint, v.Since = h.name, h.view.State, h.view.Cause, h.view.Hint, h.view.Since
	h.view = v
}

// warn shows something a person should mend, which does not stop the try.
func (t *attempt) warn(text string) {
	t.log.Warn("ssh settings", "warning", text)
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	if !slices.Contains(t.host.view.Warnings, text) {
		t.host.view.Warnings = append(slices.Clip(t.host.view.Warnings), text)
	}
}
