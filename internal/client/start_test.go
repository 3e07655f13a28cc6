package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tunctl/internal/dev/wait"
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

// helper has the test program be one of the processes of TestDetached, with the folder that it names.
const helper = "TUNCTL_TEST_DETACHED"

// TestDetached is the reader of a pipe such as in `tunctl up | more`: the pipe ends with the command, although the
// agent that it started goes on.
func TestDetached(t *testing.T) {
	dir, helps := os.LookupEnv(helper)
	if !helps {
		dir = t.TempDir()
	}
	address := filepath.Join(dir, "address")
	switch os.Args[len(os.Args)-1] {
	case "-test.skip=agent": // until somebody connects
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		must(t, os.WriteFile(address+".new", []byte(l.Addr().String()), 0o600))
		must(t, os.Rename(address+".new", address))
		_, err = l.Accept()
		must(t, err)
		return
	case "-test.skip=command":
		_, err := Detached(home.In(dir), "-test.run=TestDetached", "-test.skip=agent")(t.Context())
		must(t, err)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestDetached", "-test.skip=command")
	cmd.Env = append(os.Environ(), helper+"="+dir)
	cmd.WaitDelay = wait.Limit // after its end
	out, failure := cmd.CombinedOutput()
	wait.Until(t, "the agent that goes on", func() bool { _, err := os.Stat(address); return err == nil })
	text, err := os.ReadFile(address)
	must(t, err)
	conn, err := net.Dial("tcp", string(text))
	must(t, err)
	must(t, conn.Close())
	if failure != nil {
		t.Errorf("%v\n%s", failure, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
