package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// user answers prompts in turn; without an answer left there is nobody.
type person struct {
	mu      sync.Mutex
	answers []string
	asked   []api.Prompt
	hang    bool     // think for ever
	keep    api.Keep // what they say of each answer
}

func (p *person) Prompt(ctx context.Context, q api.Prompt, _ func()) (api.Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	hang := p.hang
	var answer string
	left := len(p.answers) > 0
	if left {
		answer, p.answers = p.answers[0], p.answers[1:]
	}
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return api.Answer{}, ctx.Err()
	}
	if !left {
		return api.Answer{}, fmt.Errorf("no terminal: %w", failure.ErrNobody)
	}
	return api.Answer{Text: answer, Keep: p.keep}, nil
}

func (p *person) questions() []api.Prompt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]api.Prompt(nil), p.asked...)
}

// bench is a pool whose every dial ends at a test server.
type bench struct {
	*Pool
	person *person
	memory *sshtest.Memory
	states []api.HostState
	mu     sync.Mutex
	end    func()

	// Of its resolver.
	resolve func(ctx context.Context, destination string) (sshconfig.Settings, error)
	target  func(name string) string
}

// newPool makes a pool. What the options leave out is that of a user who is away, on a computer that
// remembers nothing.
func newPool(o Options) *Pool {
	o.Prompter = cmp.Or[Prompter](o.Prompter, sshtest.Nobody{})
	o.Memory = cmp.Or[Memory](o.Memory, sshtest.NewMemory())
	o.Passwords = cmp.Or[userkeys.Passwords](o.Passwords, sshtest.NoPasswords{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Changed == nil {
		o.Changed = func(api.Host) {}
	}
	if o.Envs == nil {
		o.Envs = func() []api.Env { return []api.Env{nil} }
	}
	if o.Spelling == nil {
		o.Spelling = func(string) Spelling { return Spelling{Written: true} }
	}
	return NewPool(o)
}

// newBench makes a pool for the server of the host "login", with the settings that set changes.
func newBench(t testing.TB, s *sshtest.Server, set func(*sshconfig.Settings)) *bench {
	t.Helper()
	return newBenchOf(t, map[string]*sshtest.Server{"login": s}, set)
}

// newBenchOf makes a pool for servers by host name, with the settings that set changes.
func newBenchOf(t testing.TB, servers map[string]*sshtest.Server, set func(*sshconfig.Settings)) *bench {
	t.Helper()
	b := &bench{person: &person{}, memory: sshtest.NewMemory()}
	b.Pool = newPool(Options{
		Prompter: b.person, Memory: b.memory, Limits: DefaultLimits(),
		Resolver: func() sshconfig.Resolver { return sshconfig.Resolver{Read: b.resolve, Target: b.target} },
		Changed: func(h api.Host) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.states = append(b.states, h.State)
		},
	})
	known := t.TempDir() + "/known_hosts"
	for name, s := range servers {
		if err := addLine(known, s.Known(name)); err != nil {
			t.Fatal(err)
		}
	}
	b.resolve = func(_ context.Context, destination string) (sshconfig.Settings, error) {
		at, err := url.Parse("ssh://" + strings.TrimPrefix(destination, "ssh://"))
		if err != nil {
			return sshconfig.Settings{}, err
		}
		host, port := at.Hostname(), 22
		if at.Port() != "" {
			port, _ = strconv.Atoi(at.Port())
		}
		s := sshconfig.Settings{
			Destination: destination, Alias: host, Hostname: host, Port: port, User: at.User.Username(), IdentityAgent: "none",
			UserKnownHosts: []string{known}, StrictHostKeyChecking: "ask", PubkeyAuthentication: true,
			PasswordAuthentication: true, KbdInteractive: true, NumberOfPasswordPrompts: 3, TCPKeepAlive: true,
		}
		if set != nil {
			set(&s)
		}
		return s, nil
	}
	b.network.Dial = sshtest.Dial(servers)
	b.network.Lookup = func(context.Context, string) ([]string, error) { return nil, errors.New("no name service") }
	b.network.HasAddress = nil // it has all
	b.network.Watch = func(ctx context.Context, _ func(), _ *slog.Logger) { <-ctx.Done() }
	return b
}

// serve runs the pool until the test, or the call of the returned function, ends.
func (b *bench) serve(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx) }()
	b.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.end)
}

// up serves, and connects to a host.
func (b *bench) up(t testing.TB, name string) *Host {
	t.Helper()
	h := b.begin(t, name)
	mustConnect(t, h)
	return h
}

// begin serves, and has the user want a host.
func (b *bench) begin(t testing.TB, name string) *Host {
	t.Helper()
	b.serve(t)
	h := b.Host(name)
	h.Up()
	return h
}

// want serves, and has nobody in particular want a host whose login needs nobody.
func (b *bench) want(t testing.TB, name string) *Host {
	t.Helper()
	b.memory.Remember(name, func(k *api.Known) { k.Silent = true })
	b.serve(t)
	h := b.Host(name)
	h.Want()
	return h
}

// askClients has people at several clients answer the questions.
func (b *bench) askClients() *clients {
	c := &clients{make(chan api.Prompt), make(chan api.Answer), make(chan struct{})}
	b.o.Prompter = c
	return c
}

// withKeys are settings with these key files.
func withKeys(files ...string) func(*sshconfig.Settings) {
	return func(s *sshconfig.Settings) { s.IdentityFiles = files }
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// addLine appends a line to a file.
func addLine(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if n := len(old); n > 0 && old[n-1] != '\n' {
		line = "\n" + line
	}
	return os.WriteFile(path, append(old, line...), 0o600)
}

// attemptOf is a try with some of its fields set.
func attemptOf(h *Host, set func(*attempt)) *attempt {
	t := newAttempt(h)
	set(t)
	return t
}
