package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"tunctl/internal/home"
)

// socketIn listens where the agent of a home would.
func socketIn(t *testing.T, p home.Paths) net.Listener {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.Socket), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Skipf("no sockets here: %v", err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		_ = os.RemoveAll(filepath.Dir(p.Socket)) // a long one's folder is not in the home
	})
	return listener
}

// dying closes the first connections unanswered, as an agent does that just ends.
type dying struct {
	net.Listener
	left int
}

func (d *dying) Accept() (net.Conn, error) {
	for ; d.left > 0; d.left-- {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_ = conn.Close()
	}
	return d.Listener.Accept()
}

func TestStatusOfEndingAgent(t *testing.T) {
	p := home.In(t.TempDir())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"version":1,"agent":{"pid":7}}`))
	})}
	listener := &dying{Listener: socketIn(t, p), left: 3}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		<-served
	}()
	st, err := New(p).Ensure(t.Context(), func(context.Context) (<-chan error, error) {
		return nil, errors.New("a second agent was started")
	})
	if err != nil || st.Agent == nil || st.Agent.PID != 7 {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestEnsureFailedStart(t *testing.T) {
	p := home.In(t.TempDir())
	_, err := New(p).Ensure(t.Context(), func(context.Context) (<-chan error, error) {
		failed := make(chan error, 1)
		failed <- errors.New("the disk is full")
		return failed, nil
	})
	if err == nil || err.Error() != "the agent failed to start: the disk is full" {
		t.Errorf("got %v", err)
	}
}
