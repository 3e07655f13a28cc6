package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

// lateServer refuses connections until it starts, and then knows no page.
type lateServer struct{ started bool }

func (s *lateServer) Dial(context.Context, string, string) (net.Conn, error) {
	if !s.started {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(there))
		_, _ = io.WriteString(there, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		_ = there.Close()
	}()
	return here, nil
}

func TestTheGraceForALogThatTellsThePathBeginsWithTheServersFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits()
		p := newProber(&session{agent: &Agent{limits: limits}}, nil)
		server := &lateServer{}
		r := route{dialer: server, endpoint: api.Endpoint{App: "jupyter", Scheme: "http", Host: "cn01", Port: 8888}}
		for range 10 { // Jupyter starts slowly on a busy node
			if err := p.probeRoute(t.Context(), r); err == nil || errors.Is(err, errPathUnknown) {
				t.Fatalf("before the start: %v", err)
			}
			time.Sleep(time.Minute)
		}
		server.started = true
		for _, wait := range []time.Duration{0, limits.TokenGrace} {
			time.Sleep(wait)
			if err := p.probeRoute(t.Context(), r); !errors.Is(err, errPathUnknown) {
				t.Errorf("%v after the start: %v", wait, err)
			}
		}
		time.Sleep(time.Second)
		if err := p.probeRoute(t.Context(), r); err != nil {
			t.Errorf("after the grace: %v", err)
		}
	})
}
