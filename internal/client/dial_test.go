package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

// hangs takes connections and never responds, as a stopped agent does.
func hangs(t *testing.T, p home.Paths) {
	t.Helper()
	listener := socketIn(t, p)
	go func() {
		var taken []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil { // the test is over
				break
			}
			taken = append(taken, conn)
		}
		for _, conn := range taken {
			_ = conn.Close()
		}
	}()
}

func TestHungAgent(t *testing.T) {
	p := home.In(t.TempDir())
	hangs(t, p)
	if err := home.MakePrivate(p.State); err != nil {
		t.Fatal(err)
	}
	if err := p.SetRunning(home.Running{PID: 4711, Socket: p.Socket}); err != nil {
		t.Fatal(err)
	}
	c := newClient(p, 50*time.Millisecond)
	for name, request := range map[string]func(context.Context) error{
		"status": func(ctx context.Context) error { _, err := c.Status(ctx); return err },
		"ensure": func(ctx context.Context) error { _, err := c.Ensure(ctx, nil); return err },
		"up":     func(ctx context.Context) error { _, err := c.Up(ctx, api.UpRequest{Session: "jupyter"}); return err },
		"down":   func(ctx context.Context) error { _, err := c.Down(ctx, api.DownRequest{All: true}); return err },
		"stop":   c.Stop,
		"watch":  func(ctx context.Context) error { return c.Watch(ctx, api.AnswersNone, "", func(api.Event) {}) },
		"log":    func(ctx context.Context) error { return c.Log(ctx, api.LogQuery{Session: "x"}, func(api.LogChunk) {}) },
		"far log": func(ctx context.Context) error {
			return stream(ctx, c.slowClient(), api.CallLog, nil, func(api.LogChunk) {}, "x")
		},
		"jobs":   func(ctx context.Context) error { _, err := c.Jobs(ctx, "narval", false); return err },
		"extend": func(ctx context.Context) error { _, err := c.Extend(ctx, api.ExtendRequest{}); return err },
		"stream": func(ctx context.Context) error {
			_, err := c.Stream(ctx, api.StreamRequest{Host: "narval"})
			return err
		},
		"refresh": func(ctx context.Context) error { _, err := c.Refresh(ctx, ""); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := request(t.Context())
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != api.CodeAgent || !strings.HasPrefix(e.Message, "the agent (pid 4711) did not respond within ") {
				t.Fatalf("got %#v: %v", err, err)
			}
			if !strings.Contains(e.Hint, "end process 4711") {
				t.Errorf("the hint is %q", e.Hint)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("it passes for the end of the caller's own deadline")
			}
		})
	}
}

func TestHungAgentOwnDeadline(t *testing.T) {
	p := home.In(t.TempDir())
	hangs(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := newClient(p, time.Hour).Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
