package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
	"tunctl/tunnel/node"
)

// relays are those inside jobs that may outlive this agent. They are in a file of their own,
// since its secrets are nobody else's. An agent that finds some there ends them: their clients
// were those of an agent that is gone.
type relays struct {
	file     string
	journals string // the folder of what pages have taken of their kernels
	log      *slog.Logger

	mu   sync.Mutex
	list []relay
}

// relay is one of them.
type relay struct {
	Host   string      `json:"host"`
	Record node.Record `json:"relay"`

	Left time.Time `json:"left,omitzero"` // since when nobody uses it

	tried time.Time // the connection over which it could not be ended
	next  time.Time // when it is tried again at the earliest; zero: it was never tried
}

// isOver reports whether a relay must have ended by itself.
func (r relay) isOver() bool { return !r.Left.IsZero() && time.Since(r.Left) > node.Hold }

// openRelays reads the file. Everything in it was left. Journals that no relay can keep any more are removed.
func openRelays(file string, log *slog.Logger) *relays {
	r := &relays{file: file, journals: filepath.Join(filepath.Dir(file), "pages"), log: log}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &r.list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("cannot read which relays were left", "err", err)
	}
	for i := range r.list {
		if r.list[i].Left.IsZero() {
			r.list[i].Left = time.Now()
		}
	}
	if err := os.MkdirAll(r.journals, 0o700); err != nil {
		log.Warn("cannot note what pages have taken", "err", err)
	}
	old, _ := os.ReadDir(r.journals)
	for _, entry := range old {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > 2*node.Hold {
			_ = os.Remove(filepath.Join(r.journals, entry.Name()))
		}
	}
	return r
}

// change changes the list, and saves it.
func (r *relays) change(apply func([]relay) []relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(apply(r.list), relay.isOver)
	data, err := json.Marshal(r.list)
	if err == nil {
		err = atomicfile.Write(r.file, data, 0o600)
	}
	if err != nil {
		r.log.Warn("cannot save the relays", "err", err)
	}
}

// left are the relays of a host that nobody uses, and that were not tried over its connection
// since then.
func (r *relays) left(host string, since time.Time) (list []node.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if x := &r.list[i]; !x.Left.IsZero() && x.Host == host && !x.tried.Equal(since) && !time.Now().Before(x.next) && !x.isOver() {
			x.tried = since
			list = append(list, x.Record)
		}
	}
	return list
}

// relaysOf are the relays of one host.
type relaysOf struct {
	host string
	all  *relays
}

// Add implements node.Records.
func (r relaysOf) Add(record node.Record) {
	r.all.change(func(list []relay) []relay { return append(list, relay{Host: r.host, Record: record}) })
}

// Remove implements node.Records.
func (r relaysOf) Remove(record node.Record, left bool) {
	r.all.change(func(list []relay) []relay {
		if i := slices.IndexFunc(list, r.is(record)); left && i >= 0 {
			list[i].Left = time.Now().Round(0)
			return list
		}
		return slices.DeleteFunc(list, r.is(record))
	})
}

// Left implements node.Records.
func (r relaysOf) Left(like node.Record) (found node.Record, ok bool) {
	r.all.change(func(list []relay) []relay {
		i := slices.IndexFunc(list, func(x relay) bool { return x.Host == r.host && !x.Left.IsZero() && x.Record.CanFollow(like) })
		if ok = i >= 0; ok {
			like.Ticket = list[i].Record.Ticket
			list[i], found = relay{Host: r.host, Record: like}, like
		}
		return list
	})
	return found, ok
}

// failed notes that a relay could not be ended. The node may have refused a login for that, which the
// site may count: after the second time it is tried once an hour at most.
func (r relaysOf) failed(record node.Record, pause time.Duration) {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	if i := slices.IndexFunc(r.all.list, r.is(record)); i >= 0 {
		x := &r.all.list[i]
		if !x.next.IsZero() {
			pause = time.Hour
		}
		x.next = time.Now().Add(pause)
	}
}

func (r relaysOf) is(record node.Record) func(relay) bool {
	return func(x relay) bool { return x.Host == r.host && reflect.DeepEqual(x.Record, record) }
}

// endRelayTimeout bounds the end of one relay: a job step starts for it.
const endRelayTimeout = 2 * time.Minute

// EndLeftRelays ends the relays on a host, which is up, that nobody uses.
func (h *Hosts) EndLeftRelays(host api.Host) {
	list := h.relays.left(host.Alias, host.Since)
	h.watchers.mu.Lock()
	ctx, work := h.watchers.ctx, h.watchers.work
	h.watchers.mu.Unlock()
	if len(list) == 0 || ctx == nil {
		return
	}
	work.Go(func() {
		for _, record := range list {
			h.endRelay(ctx, host.Alias, record)
		}
	})
}

func (h *Hosts) endRelay(ctx context.Context, host string, record node.Record) {
	ctx, cancel := context.WithTimeout(ctx, endRelayTimeout)
	defer cancel()
	n := h.Node(h.Pool.Host(host), record.Options())
	defer n.Close()
	switch err := n.EndRelay(ctx, record); {
	case errors.Is(err, node.ErrKept):
		relaysOf{host, h.relays}.failed(record, time.Hour)
		return
	case err != nil:
		h.opt.Log.Info("a relay that was left could not be ended", "host", host, "job", record.Job, "err", err)
		relaysOf{host, h.relays}.failed(record, time.Minute)
		return
	}
	h.opt.Log.Info("ended a relay that was left", "host", host, "job", record.Job)
	relaysOf{host, h.relays}.Remove(record, false)
}
