package agent_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/agent"
	"tunctl/internal/agent/socket"
	"tunctl/internal/client"
	"tunctl/internal/home"
)

// elsewhere are the same files for a process with another XDG_RUNTIME_DIR.
func (w *world) elsewhere() home.Paths {
	w.t.Helper()
	run, err := os.MkdirTemp("", "tunctl-")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(run) })
	p := w.paths
	p.Socket = filepath.Join(run, "tunctl", "agent.sock")
	return p
}

func noLaunch(context.Context) (<-chan error, error) {
	return nil, errors.New("a second agent was launched")
}

func TestAnotherRuntimeFolderFindsTheSameAgent(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Paths = w.elsewhere()
	st, err := client.New(o.Paths).Ensure(t.Context(), noLaunch)
	if err != nil || st.Agent == nil || st.Agent.PID != os.Getpid() {
		t.Errorf("a command got %+v, %v", st.Agent, err)
	}
	second, err := agent.New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = second.Serve(t.Context())
	if !errors.Is(err, socket.ErrRunning) || !strings.Contains(err.Error(), w.paths.Socket) {
		t.Errorf("a second agent says %v, which should name the socket %s", err, w.paths.Socket)
	}
	if err := client.New(o.Paths).Stop(t.Context()); err != nil {
		t.Errorf("stopping it from there: %v", err)
	}
}

func TestADeletedSocketComesBackAndNoSecondAgentStarts(t *testing.T) {
	w := newWorld(t)
	for _, gone := range []string{w.paths.Socket, filepath.Dir(w.paths.Socket)} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		second, err := agent.New(w.options())
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Serve(t.Context()); !errors.Is(err, socket.ErrRunning) {
			t.Errorf("without %s a second agent says %v", gone, err)
		}
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Ensure(t.Context(), noLaunch); err != nil {
			t.Errorf("without %s a command gets %v", gone, err)
		}
	}
}

func TestASocketThatCannotBeWhereItShouldIsElsewhereAndFound(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.write(filepath.Dir(w.paths.Socket)+"/blocked", "a file where the folder should be")
	w.paths.Socket = filepath.Join(filepath.Dir(w.paths.Socket), "blocked", "agent.sock")
	w.client = client.New(w.paths)
	w.start()
	w.up()
}

func TestASocketThatCanBeNowhereIsReportedOnce(t *testing.T) {
	w := newWorld(t)
	w.stop()
	o := w.options()
	o.Paths.Socket = o.Paths.SpareSocket() // as on Windows
	w.write(filepath.Dir(o.Paths.Socket), "a file where the folder should be")
	blocked, err := agent.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := blocked.Serve(t.Context()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("the agent says %v, want one line", err)
	}
}

func TestAnAgentThatEndsIsWaitedForAndThenReplaced(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	first := w.stop
	stopped := make(chan struct{})
	go func() { defer close(stopped); first() }()
	for listening := true; listening; {
		conn, err := net.Dial("unix", w.paths.Socket)
		if listening = err == nil; listening {
			_ = conn.Close()
		}
	}
	w.start() // while the first one ends
	<-stopped
	after := w.until("ready", ready)
	if after.Job.ID != before.Job.ID || after.Local != before.Local {
		t.Errorf("before %s at %s, after %s at %s", before.Job.ID, before.Local, after.Job.ID, after.Local)
	}
}

func TestAKilledAgentsNameKeepsNobodyFromStarting(t *testing.T) {
	w := newWorld(t)
	w.stop()
	if err := w.paths.SetRunning(home.Running{PID: 1, Socket: w.elsewhere().Socket}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Status(t.Context()); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("err = %v, want ErrNotRunning", err)
	}
	w.start()
	r, err := w.paths.Running()
	if err != nil || r.PID != os.Getpid() || r.Socket != w.paths.Socket {
		t.Errorf("running: %+v, %v", r, err)
	}
}

// TestTwoAgentsNeverKeepOneSession is two starts of agents for one person who keeps
// a session: from a terminal, and from cron without XDG_RUNTIME_DIR.
func TestTwoAgentsNeverKeepOneSession(t *testing.T) {
	w := keepWorld(t, nil)
	w.up()
	o := w.options()
	o.Paths = w.elsewhere()
	second, err := agent.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Serve(t.Context()); !errors.Is(err, socket.ErrRunning) {
		t.Fatalf("a second agent says %v", err)
	}
	w.until("followed by another", followed)
	if n := len(w.cluster.Jobs()); n != 2 {
		t.Errorf("jobs: %s", states(w.cluster.Jobs()))
	}
}
