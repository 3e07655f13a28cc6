package jobwatch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// host is what is known of a host's scheduler, and who may run a command there.
type host struct {
	sh     *remote.Shell
	wanted string // the scheduler's name, if the config has it
	name   string // in messages
	limits remote.Limits
	log    *slog.Logger
	turn   remote.Turn // taken while a command runs

	account account // owned by who has the turn

	mu    sync.Mutex
	sched sched.Scheduler
}

// known is the host's scheduler, if that was found out already; else nil.
func (h *host) known() sched.Scheduler {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sched
}

// acquire returns the scheduler once no other command runs on the host. None does until
// unlock is called.
func (h *host) acquire(ctx context.Context) (s sched.Scheduler, unlock func(), err error) {
	if s, err = h.scheduler(ctx); err != nil {
		return nil, nil, err
	}
	unlock, err = h.turn.Take(ctx)
	return s, unlock, err
}

// kind is the kind of the host's scheduler.
func (h *host) kind(ctx context.Context) (*sched.Kind, error) {
	s, err := h.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	return s.Kind(), nil
}

// scheduler is the host's scheduler, which is found out once.
func (h *host) scheduler(ctx context.Context) (sched.Scheduler, error) {
	if known := h.known(); known != nil {
		return known, nil
	}
	name := h.wanted
	if name == "" {
		a, err := h.whoami(ctx)
		if err != nil {
			return nil, err
		}
		if name = a.scheduler; name == "" {
			return nil, fmt.Errorf("%w: the commands of several are installed (%s), and none responds", remote.ErrNoAnswer, a.installed)
		}
	}
	if err := unsupportedError(h.name, name); err != nil {
		return nil, err
	}
	k := kindNamed(name)
	if k == nil {
		return nil, unknownScheduler(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sched = k.New()
	return h.sched, nil
}

// whoami queries the host once and remembers the answer.
func (h *host) whoami(ctx context.Context) (account, error) {
	unlock, err := h.turn.Take(ctx)
	if err != nil {
		return account{}, err
	}
	defer unlock()
	if h.account != (account{}) {
		return h.account, nil
	}
	res, err := h.sh.Login(ctx, accountScript())
	if err != nil {
		return account{}, err
	}
	lines := strings.Split(string(res.Stdout), "\n")
	if len(lines) < 4 {
		said := api.NewRemoteText(string(res.Stdout)).FirstLine(200)
		return account{}, fmt.Errorf("cannot read the user name on the host: unexpected output %q", said)
	}
	a := account{scheduler: lines[0], login: lines[1], node: lines[2], installed: lines[3]}
	h.log.Debug("identified the host", "scheduler", a.scheduler, "user", a.login, "node", a.node)
	if a.scheduler == "" {
		return a, nil // query it again next time
	}
	h.account = a
	return a, nil
}
