//go:build linux

package realssh

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/tunneltest"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
)

// patience bounds every wait of these tests; none is meant to take it.
const patience = wait.Limit

func TestMain(m *testing.M) {
	real.Role() // a lab's own processes build nothing
	os.Exit(testprogram.Run(real.Wanted(), func() int { return real.Main(m) }))
}

// user answers prompts in their order, and keeps them.
type person struct {
	mu      sync.Mutex
	answers []string
	asked   []api.Prompt
}

func (p *person) Prompt(_ context.Context, q api.Prompt, _ func()) (api.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q)
	if len(p.answers) == 0 {
		return api.Answer{}, fmt.Errorf("%q: %w", q.Text, failure.ErrNobody)
	}
	text := p.answers[0]
	p.answers = p.answers[1:]
	return api.Answer{Text: text}, nil
}

// questions are the kinds of what was asked, in order.
func (p *person) questions() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kinds []string
	for _, q := range p.asked {
		kinds = append(kinds, string(q.Kind))
	}
	return strings.Join(kinds, " ")
}

// laptop is a served pool that goes by the lab's ssh_config, and the user at it.
type laptop struct {
	*tunnel.Pool
	t      *testing.T
	lab    *real.Lab
	person *person
}

// options are what a test changes about a laptop.
type options struct {
	lab     real.Options
	answers []string
	config  func(text string) string // changes the lab's ssh_config
	env     api.Env
	limits  func(*tunnel.Limits)
}

func newLaptop(t *testing.T, o options) *laptop {
	t.Helper()
	lab := real.StartWith(t, o.lab)
	l := &laptop{t: t, lab: lab, person: &person{answers: o.answers}}
	limits := tunnel.PracticeLimits()
	if o.limits != nil {
		o.limits(&limits)
	}
	env := api.Env{"PATH": os.Getenv("PATH")}
	for k, v := range o.env {
		env[k] = v
	}
	l.Pool = tunneltest.NewPool(changedConfig(t, lab, o.config), tunnel.Options{
		Prompter: l.person, Limits: limits,
		Envs: func() []api.Env { return []api.Env{env} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = l.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return l
}

func changedConfig(t *testing.T, lab *real.Lab, change func(string) string) string {
	t.Helper()
	if change == nil {
		return lab.SSHConfig()
	}
	text, err := os.ReadFile(lab.SSHConfig())
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "ssh_config", change(string(text)))
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// withKey has every host of the config use another key of the lab.
func withKey(lab *real.Lab, name string) func(string) string {
	return setting("IdentityFile", lab.KeyFile(name))
}

// setting replaces a setting wherever the config has it.
func setting(name, value string) func(string) string {
	pattern := regexp.MustCompile(`(?m)` + name + ` .*$`)
	return func(text string) string { return pattern.ReplaceAllLiteralString(text, name+" "+value) }
}

// login says that the user wants the host and waits for what comes of it.
func (l *laptop) login(alias string) (*tunnel.Host, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	h := l.Host(alias)
	h.Up()
	return h, h.Await(ctx)
}

// mustLogin is login for a host that lets the user in, and runs a command there.
func (l *laptop) mustLogin(alias string) *tunnel.Host {
	l.t.Helper()
	h, err := l.login(alias)
	if err != nil {
		l.t.Fatalf("login to %s: %v", alias, err)
	}
	if out, err := runHostname(l.t.Context(), h); err != nil || out != "login1" {
		l.t.Fatalf("hostname on %s says %q, %v", alias, out, err)
	}
	return h
}

func runHostname(ctx context.Context, h *tunnel.Host) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := h.Run(ctx, "hostname", nil)
	return strings.TrimSpace(string(r.Stdout)), err
}
