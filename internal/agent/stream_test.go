package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
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
	if err != nil {
		w.t.Fatal(err)
	}
	return func() { _ = s.Close() }
}

func isUp(h api.Host) bool   { return h.State == api.HostUp }
func isDown(h api.Host) bool { return h.State == api.HostDown }

func TestAStreamsConnectionToANodeEndsWithIt(t *testing.T) {
	w := newWorld(t)
	w.restart(config, func(l *session.Limits) { l.Tunnel.NodeIdle = time.Nanosecond })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w.nodeStream(ctx)()
	for first := w.cluster.Logins(); w.cluster.Logins() == first; {
		w.nodeStream(ctx)() // one that comes early shares the connection of the one before
	}
	w.untilHost("practice", "up", isUp)
}

func TestALogoutEndsTheStreamsOnNodesToo(t *testing.T) {
	w := newWorld(t)
	defer w.nodeStream(t.Context())()
	w.untilHost("practice", "up", isUp)
	if list := w.listedHosts(); list != "practice" {
		t.Errorf("the status lists %q", list)
	}
	if err := w.client.Logout(t.Context(), "practice"); err != nil {
		t.Fatal(err)
	}
	w.untilHost("practice", "down", isDown)
}

func TestALogoutThatEndsNothingSaysWhoUsesTheConnection(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host other")
	for _, name := range []string{"practice", "other"} {
		if _, err := w.client.Login(t.Context(), name); err != nil {
			t.Fatal(err)
		}
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
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != code || !strings.Contains(e.Hint, hint) {
			w.t.Errorf("%s while %s: %v", kind, state, err)
		}
	}
	st, err := w.client.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if s, _ := st.Session("jupyter"); s.State != state {
		w.t.Errorf("the session is %s now, and was %s", s.State, state)
	}
	if w.cluster.Logins() != before || len(w.cluster.Jobs()) != jobs {
		w.t.Errorf("while %s: %d logins and %d jobs, there were %d and %d", state, w.cluster.Logins(), len(w.cluster.Jobs()), before, jobs)
	}
}

func TestADialThatIsLostDoesNotEndLikeACompleteOne(t *testing.T) {
	w := newWorld(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		far, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
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
}

func TestAStreamNeverBringsASessionUp(t *testing.T) {
	w := newWorldWith(t, lab.Options{QueueFor: time.Hour})
	w.refusesInside(api.SessionDown, api.CodeNotReady, "`tunctl up jupyter`")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.until("queued", func(s api.Session) bool { return s.State == api.SessionQueued })
	w.refusesInside(api.SessionQueued, api.CodeNotReady, "`tunctl up jupyter` waits for it")
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.refusesInside(api.SessionDown, api.CodeNotReady, "`tunctl up jupyter` reconnects")
	_, err := w.client.Stream(t.Context(), api.StreamRequest{Kind: api.StreamGateway, Session: "jupiter"})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUnknownSession || !strings.Contains(e.Hint, "jupyter") {
		t.Errorf("an unknown session: %v", err)
	}
}

func TestAStreamIntoAJobThatHasEndedStartsNoOther(t *testing.T) {
	w := newWorld(t)
	if err := w.cluster.KillJob(w.up().Job.ID); err != nil {
		t.Fatal(err)
	}
	ended := w.until("over", func(s api.Session) bool { return s.State.Settled() })
	w.refusesInside(ended.State, api.CodeJobEnded, "`tunctl up jupyter` starts a new one")
}

func TestAStreamInsideAJobEndsWhenTheJobMovesAndWhenTheSessionGoesDown(t *testing.T) {
	w := newWorld(t)
	job := w.up().Job
	endsAfter := func(what string, do func() error) {
		t.Helper()
		s, err := w.inside(api.StreamRequest{Kind: api.StreamGateway})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if err := errors.Join(do(), s.SetDeadline(time.Now().Add(patience))); err != nil {
			t.Fatal(err)
		}
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
}

func TestAStreamInsideAJobWaitsForTheHost(t *testing.T) {
	w := newWorld(t)
	w.up()
	if err := w.cluster.Refuse(true); err != nil {
		t.Fatal(err)
	}
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
	if err := w.cluster.Refuse(false); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestASessionWithoutAJobIsItsHost(t *testing.T) {
	w := newWorld(t)
	w.restart("[session.jupyter]\nhost = \"practice\"\nforward = [\"2022:localhost:22\"]\n", nil)
	s, err := w.inside(api.StreamRequest{Kind: api.StreamSFTP})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

func TestAJobWithoutASchedulerRunsOnItsHost(t *testing.T) {
	w := newWorld(t)
	w.restart(strings.Replace(config, "resume = false", "scheduler = \"none\"", 1), nil)
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), "#!/bin/sh\nexec sleep 600\n")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
			t.Error(err)
		}
	}()
	w.until("following its job", func(s api.Session) bool {
		return s.State == api.SessionStarting && strings.HasPrefix(s.Cause, "looking for the server address in the log of job ")
	})
	logins := w.cluster.Logins()
	s, err := w.inside(api.StreamRequest{Kind: api.StreamSFTP})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if n := w.cluster.Logins() - logins; n != 0 {
		t.Errorf("%d more logins", n)
	}
}

func TestANodeThatTheJobHasNotIsAnsweredWithThoseThatItHas(t *testing.T) {
	w := newWorld(t)
	job := w.up().Job
	_, err := w.inside(api.StreamRequest{Kind: api.StreamGateway, Node: "cn99"})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUsage || e.Hint != "its nodes: 0 "+job.Node {
		t.Errorf("err = %v", err)
	}
}

// ssh is a client of the gateway into the job of the session.
func (w *world) ssh() *ssh.Client {
	w.t.Helper()
	s, err := w.inside(api.StreamRequest{Kind: api.StreamGateway})
	if err != nil {
		w.t.Fatal(err)
	}
	conn, channels, requests, err := ssh.NewClientConn(s, gateway.Alias, &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		w.t.Fatal(err)
	}
	c := ssh.NewClient(conn, channels, requests)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// programInside starts a program inside the job of the session that runs until it is ended.
func (w *world) programInside() *os.Process {
	w.t.Helper()
	shell, err := w.ssh().NewSession()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start("echo $$; exec sleep 600")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		w.t.Fatal(err)
	}
	program, err := os.FindProcess(pid)
	if err != nil {
		w.t.Fatal(err)
	}
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
		if err := w.cluster.Refuse(true); err != nil {
			t.Fatal(err)
		}
		w.cluster.DropAll()
		w.until("reconnecting", func(s api.Session) bool { return s.State == api.SessionReconnecting })
		w.stop()
		if err := errors.Join(program.Signal(syscall.Signal(0)), w.cluster.Refuse(false)); err != nil {
			t.Fatal(err)
		}
		w.start()
		ends(t, program)
	})
}
