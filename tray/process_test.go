package tray

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

// piped is an agent at the other end of standard input and output: events come in
// as JSON, one a line, and requests go out as lines of words.
type piped struct {
	lines chan string
	mu    sync.Mutex
}

func (p *piped) say(words ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Println(strings.Join(words, " "))
	return err
}

func (p *piped) Watch(ctx context.Context, each func(api.Event)) error {
	for {
		select {
		case line, ok := <-p.lines:
			var e api.Event
			if !ok || line == "gone" || json.Unmarshal([]byte(line), &e) != nil {
				return errors.New("the agent is gone")
			}
			each(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *piped) Up(_ context.Context, req api.UpRequest) (api.UpResponse, error) {
	if req.With != nil {
		return api.UpResponse{}, p.say("up", req.Session, req.With.String())
	}
	return api.UpResponse{}, p.say("up", req.Session)
}

func (p *piped) Down(_ context.Context, req api.DownRequest) (api.DownResponse, error) {
	return api.DownResponse{}, p.say("down", req.Session, fmt.Sprint(req.Cancel))
}

func (p *piped) Page(_ context.Context, name string) (api.OpenResponse, error) {
	return api.OpenResponse{URL: "http://localhost:8888/" + name + "?token=s3cr3t"}, nil
}

func (p *piped) EndpointPage(_ context.Context, session, name string) (api.OpenResponse, error) {
	return api.OpenResponse{URL: "http://localhost:8889/" + session + "/" + name}, nil
}

func (p *piped) Extend(_ context.Context, name string, by time.Duration) (api.Job, error) {
	return api.Job{ID: "1001", End: time.Now().Add(by)}, p.say("extend", name, by.String())
}

func (p *piped) Answer(_ context.Context, id string, a api.Answer) error {
	return p.say("answer", id, a.Text, fmt.Sprint(a.Cancelled))
}

// silentTray is the instance that shows no notifications.
const silentTray = "silent"

// playTray runs the tray as a process of its own, and exits 0 when it ended
// well, 1 when it said why it did not.
func playTray() int {
	p := &piped{lines: make(chan string)}
	go func() {
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			p.lines <- in.Text()
		}
		close(p.lines)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	on := &switchOnOff{}
	err := Run(ctx, Options{
		Agent: p, Autostart: on, Instance: os.Getenv("TUNCTL_TEST_TRAY"),
		desk: &desk{
			Desktop: action.Desktop{
				Open: func(_ context.Context, url string) error { return p.say("browse", url) },
				Copy: func(_ context.Context, text string) error { return p.say("copy", text) },
			},
			terminal: func(_ context.Context, args ...string) error { return p.say("terminal", strings.Join(args, " ")) },
			edit:     func(_ context.Context, path string) error { return p.say("edit", path) },
			show:     func(_ context.Context, _ string) error { return p.say("help") },
			ask:      desktop.Ask,
		},
		Log:        slog.New(slog.DiscardHandler),
		StartAgent: func(context.Context) error { return p.say("start") },
		Dashboard:  func(context.Context) error { return p.say("dashboard") },
		Login:      func(_ context.Context, host string) error { return p.say("login", host) },
		Logout:     func(_ context.Context, host string) error { return p.say("logout", host) },
		ConfigPath: os.Args[0],
		Notify:     func(string) bool { return os.Getenv("TUNCTL_TEST_TRAY") != silentTray },
		Tell:       func(message string) { _ = p.say("tell", message) },
	})
	if err != nil {
		_ = p.say("error", err.Error())
		return 1
	}
	return 0
}
