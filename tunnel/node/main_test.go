package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"go.uber.org/goleak"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/tunneltest"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
)

// TestMain looks for goroutines left behind. One run at a time: a relay finds the processes of its job by its
// number, which is the same in each run.
func TestMain(m *testing.M) {
	lock := flock.New(filepath.Join(os.TempDir(), fmt.Sprint("tunctl-node-tests-", os.Getuid())))
	if err := lock.Lock(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// longest bounds every wait of these tests on the real clock; none is meant to take it.
const longest = wait.Limit

// eventually polls until is returns true.
func eventually(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(longest); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func closing(c io.Closer) { _ = c.Close() }

// nobody is a Prompter that must not be used.
type nobody struct{ t *testing.T }

func (n nobody) Prompt(_ context.Context, p api.Prompt, _ func()) (api.Answer, error) {
	n.t.Errorf("the user was asked %+v", p)
	return api.Answer{}, failure.ErrNobody
}

// login is a host that is up, with nodes behind it.
type login struct {
	*tunnel.Host
	pool    *tunnel.Pool
	learned *Learned
}

func (l *login) node(o Options) *Node {
	o.Learned = l.learned
	return New(l.Link(), o)
}

// behind is the host "outer" and the node "inner" behind it; the user's key opens both.
func behind(t *testing.T, limits tunnel.Limits) (*login, map[string]*sshtest.Server) {
	t.Helper()
	key, public := sshtest.NewKeyFile(t)
	servers := map[string]*sshtest.Server{}
	var known strings.Builder
	for _, name := range []string{"outer", "inner"} {
		servers[name] = sshtest.NewServer(t, sshtest.AcceptKey(public))
		known.WriteString(servers[name].Known(name))
	}
	servers["outer"].Inner = map[string]*sshtest.Server{"inner": servers["inner"]}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := "IdentityFile " + key + "\nIdentityAgent none\nUserKnownHostsFile " + write("known_hosts", known.String()) + "\nGlobalKnownHostsFile none\n"
	pool := tunneltest.NewPool(write("config", config), tunnel.Options{
		Limits: limits, Prompter: nobody{t},
		Network: &tunnel.Network{
			Dial:   sshtest.Dial(map[string]*sshtest.Server{"outer": servers["outer"]}),
			Lookup: func(context.Context, string) ([]string, error) { return nil, errors.New("no name service") },
			Watch:  func(ctx context.Context, _ func(), _ *slog.Logger) { <-ctx.Done() },
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pool.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	outer := &login{pool.Host("outer"), pool, &Learned{}}
	outer.Up()
	mustConnect(t, outer)
	return outer, servers
}

func mustConnect(t *testing.T, l *login) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := l.Await(ctx); err != nil {
		t.Fatalf("Await: %v (%+v)", err, l.Status())
	}
}
