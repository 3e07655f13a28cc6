package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/gateway"
	"tunctl/internal/lab"
)

// nodeStream opens a stream on a node behind the practice cluster: the cluster again,
// which has but one machine.
func (w *world) nodeStream(ctx context.Context) (end func()) {
	w.t.Helper()
	s, err := w.client.Stream(ctx, api.StreamRequest{Kind: api.StreamSFTP, Host: "practice", Node: "practice"})
	must(w.t, err)
	return func() { _ = s.Close() }
}

func isUp(h api.Host) bool   { return h.State == api.HostUp }
func isDown(h api.Host) bool { return h.State == api.HostDown }

func TestStream(t *testing.T) {
	t.Parallel()
	t.Run("over an existing connection makes none", func(t *testing.T) {
		w := newWorld(t)
		req := api.StreamRequest{Kind: api.StreamSFTP, Connected: true}
		for _, req.Host = range []string{"practice", "mistyped"} {
			if s, err := w.client.Stream(t.Context(), req); err == nil {
				_ = s.Close()
				t.Errorf("there is a stream to %s", req.Host)
			}
		}
		w.untouched(0)
		w.up()
		logins := w.cluster.Logins()
		req.Host = "practice"
		s, err := w.client.Stream(t.Context(), req)
		must(t, err)
		_ = s.Close()
		w.untouched(logins)
	})
	t.Run("ends with its connection to a node", func(t *testing.T) {
		w := newWorld(t)
		w.restart(config, func(l *session.Limits) { l.Tunnel.NodeIdle = time.Nanosecond })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		w.nodeStream(ctx)()
		for first := w.cluster.Logins(); w.cluster.Logins() == first; {
			w.nodeStream(ctx)() // one that comes early shares the connection of the one before
		}
		w.untilHost("practice", "up", isUp)
	})
	t.Run("that is lost does not end like a complete one", func(t *testing.T) {
		w := newWorld(t)
		server, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { _ = server.Close() }()
		words := strings.Repeat("some words\n", 100_000)
		for _, c := range []struct {
			end  string
			want error
			do   func(far net.Conn)
		}{
			{"by the server", nil, func(far net.Conn) { _ = far.Close() }},
			{"by a lost connection", io.ErrUnexpectedEOF, func(net.Conn) { w.cluster.DropAll() }},
		} {
			s, err := w.client.Stream(t.Context(), api.StreamRequest{Kind: api.StreamDial, Host: "practice", Address: server.Addr().String()})
			must(t, err)
			far, err := server.Accept()
			must(t, err)
			var sent sync.WaitGroup
			sent.Go(func() { _, _ = io.WriteString(far, words) })
			got := make([]byte, len(words))
			_, err = io.ReadFull(s, got)
			sent.Wait()
			c.do(far)
			rest, end := io.ReadAll(s)
			if string(got) != words || len(rest) > 0 || err != nil || !errors.Is(end, c.want) {
				t.Errorf("ended %s: %v, then %q, %v; want %v", c.end, err, rest, end, c.want)
			}
			_, _ = far.Close(), s.Close()
		}
	})
	t.Run("never brings a session up", func(t *testing.T) {
		w := newWorldWith(t, lab.Options{QueueFor: time.Hour})
		w.refusesInside(api.SessionDown, api.CodeNotReady, "`tunctl up jupyter`")
		w.bringUp()
		w.until("queued", func(s api.Session) bool { return s.State == api.SessionQueued })
		w.refusesInside(api.SessionQueued, api.CodeNotReady, "`tunctl up jupyter` waits for it")
		w.down(false)
		w.refusesInside(api.SessionDown, api.CodeNotReady, "`tunctl up jupyter` reconnects")
		_, err := w.client.Stream(t.Context(), api.StreamRequest{Kind: api.StreamGateway, Session: "jupiter"})
		isCode(t, err, api.CodeUnknownSession, "jupyter")
	})
	t.Run("into a job that has ended starts no other", func(t *testing.T) {
		w := newWorld(t)
		must(t, w.cluster.KillJob(w.up().Job.ID))
		ended := w.until("over", func(s api.Session) bool { return s.State.Settled() })
		w.refusesInside(ended.State, api.CodeJobEnded, "`tunctl up jupyter` starts a new one")
	})
	t.Run("inside a job ends when the job moves and when the session goes down", func(t *testing.T) {
		w := newWorld(t)
		job := w.up().Job
		endsAfter := func(what string, do func() error) {
			t.Helper()
			s, err := w.inside(api.StreamRequest{Kind: api.StreamGateway})
			must(t, err)
			defer func() { _ = s.Close() }()
			must(t, errors.Join(do(), s.SetDeadline(time.Now().Add(patience))))
			if _, err := io.Copy(io.Discard, s); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after a %s the stream stays open", what)
			}
		}
		endsAfter("requeue", func() error { return w.cluster.Requeue(job.ID) })
		w.until("ready elsewhere", func(s api.Session) bool { return ready(s) && s.Job.Node != job.Node })
		endsAfter("down", func() error {
			_, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"})
			return err
		})
	})
	t.Run("inside a job waits for the host", func(t *testing.T) {
		w := newWorld(t)
		w.up()
		w.cluster.Pause() // a port that refuses fails the stream at the second try
		w.cluster.DropAll()
		w.until("reconnecting", func(s api.Session) bool { return s.State == api.SessionReconnecting })
		opened := make(chan error, 1)
		go func() {
			s, err := w.inside(api.StreamRequest{Kind: api.StreamGateway, Unattended: true})
			if err == nil {
				_ = s.Close()
			}
			opened <- err
		}()
		w.cluster.Resume()
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
	t.Run("of a session without a job leads to its host", func(t *testing.T) {
		w := newWorld(t)
		w.restart("[session.jupyter]\nhost = \"practice\"\nforward = [\"0:localhost:22\"]\n", nil)
		s, err := w.inside(api.StreamRequest{Kind: api.StreamSFTP})
		must(t, err)
		_ = s.Close()
	})
	t.Run("of a job without a scheduler leads to its host", func(t *testing.T) {
		w := newWorld(t)
		w.restart(strings.Replace(config, "resume = false", "scheduler = \"none\"", 1), nil)
		w.script("#!/bin/sh\nexec sleep 600\n")
		w.bringUp()
		defer func() {
			w.down(true)
		}()
		w.until("following its job", func(s api.Session) bool {
			return s.State == api.SessionStarting && strings.HasPrefix(s.Cause, "looking for the server address in the log of job ")
		})
		logins := w.cluster.Logins()
		s, err := w.inside(api.StreamRequest{Kind: api.StreamSFTP})
		must(t, err)
		_ = s.Close()
		if n := w.cluster.Logins() - logins; n != 0 {
			t.Errorf("%d more logins", n)
		}
	})
	t.Run("to a node that the job has not is answered with those that it has", func(t *testing.T) {
		w := newWorld(t)
		job := w.up().Job
		_, err := w.inside(api.StreamRequest{Kind: api.StreamGateway, Node: "cn99"})
		isCode(t, err, api.CodeUsage, "its nodes: 0 "+job.Node)
	})
}

func TestLogout(t *testing.T) {
	t.Parallel()
	t.Run("ends the streams on nodes, too", func(t *testing.T) {
		w := newWorld(t)
		defer w.nodeStream(t.Context())()
		w.untilHost("practice", "up", isUp)
		if list := w.listedHosts(); list != "practice" {
			t.Errorf("the status lists %q", list)
		}
		must(t, w.client.Logout(t.Context(), "practice"))
		w.untilHost("practice", "down", isDown)
	})
	t.Run("that ends nothing says who uses the connection", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host other")
		for _, name := range []string{"practice", "other"} {
			w.login(name)
			w.untilHost(name, "up", isUp)
		}
		err := w.client.Logout(t.Context(), "practice")
		if err == nil || !strings.Contains(err.Error(), "the connection to practice stays up: other still uses it") {
			t.Errorf("err = %v", err)
		}
		for _, name := range []string{"other", "practice"} {
			if err := w.client.Logout(t.Context(), name); err != nil {
				t.Error(err)
			}
			w.untilHost(name, "down", isDown)
		}
	})
}

// inside opens a stream inside the job of the session.
func (w *world) inside(req api.StreamRequest) (*client.Stream, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	req.Session = "jupyter"
	return w.client.Stream(ctx, req)
}

// refusesInside checks that every kind of stream inside the job is refused, and that nothing
// was started for it.
func (w *world) refusesInside(state api.SessionState, code api.Code, hint string) {
	w.t.Helper()
	before, jobs := w.cluster.Logins(), len(w.cluster.Jobs())
	for _, kind := range []api.StreamKind{api.StreamGateway, api.StreamSFTP, api.StreamDial} {
		_, err := w.inside(api.StreamRequest{Kind: kind, Address: "localhost:22"})
		isCode(w.t, err, code, hint)
	}
	st := w.status()
	if s, _ := st.Session("jupyter"); s.State != state {
		w.t.Errorf("the session is %s now, and was %s", s.State, state)
	}
	if w.cluster.Logins() != before || len(w.cluster.Jobs()) != jobs {
		w.t.Errorf("while %s: %d logins and %d jobs, there were %d and %d", state, w.cluster.Logins(), len(w.cluster.Jobs()), before, jobs)
	}
}

// ssh is a client of the gateway into the job of the session.
func (w *world) ssh() *ssh.Client {
	w.t.Helper()
	s, err := w.inside(api.StreamRequest{Kind: api.StreamGateway})
	must(w.t, err)
	conn, channels, requests, err := ssh.NewClientConn(s, gateway.Alias, &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	must(w.t, err)
	c := ssh.NewClient(conn, channels, requests)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// programInside starts a program inside the job of the session that runs until it is ended.
func (w *world) programInside() *os.Process {
	w.t.Helper()
	shell, err := w.ssh().NewSession()
	must(w.t, err)
	out, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start("echo $$; exec sleep 600")
	}
	must(w.t, err)
	var pid int
	_, err = fmt.Fscan(out, &pid)
	must(w.t, err)
	program, err := os.FindProcess(pid)
	must(w.t, err)
	w.t.Cleanup(func() { _ = program.Kill() })
	return program
}

func TestAgentStop(t *testing.T) {
	newWorld := func(t *testing.T) *world {
		w := newWorld(t)
		w.restart(strings.Replace(config, "resume = false", "", 1), nil)
		w.up()
		return w
	}
	ends := func(t *testing.T, program *os.Process) {
		t.Helper()
		for began := time.Now(); program.Signal(syscall.Signal(0)) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatal("the program was left in the job")
			}
		}
	}
	t.Run("ends what runs inside a job", func(t *testing.T) {
		w := newWorld(t)
		program := w.programInside()
		st, err := w.client.Status(t.Context())
		if want := []api.OpenStream{{Kind: api.StreamGateway, Session: "jupyter"}}; err != nil || !reflect.DeepEqual(st.Agent.Streams, want) {
			t.Errorf("streams %+v, %v", st.Agent.Streams, err)
		}
		w.stop()
		ends(t, program)
		if list, err := os.ReadFile(w.paths.Relays()); string(list) != "[]" {
			t.Errorf("relays on record: %s, %v", list, err)
		}
	})
	t.Run("leaves to the next agent what it cannot reach", func(t *testing.T) {
		w := newWorld(t)
		program := w.programInside()
		must(t, w.cluster.Refuse(true))
		w.cluster.DropAll()
		w.until("reconnecting", func(s api.Session) bool { return s.State == api.SessionReconnecting })
		w.stop()
		must(t, errors.Join(program.Signal(syscall.Signal(0)), w.cluster.Refuse(false)))
		w.start()
		ends(t, program)
	})
}
