package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/remote"
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
		p := New(Options{Limits: limits})
		server := &lateServer{}
		r := Route{Dialer: server, Endpoint: api.Endpoint{App: "jupyter", Scheme: "http", Host: "cn01", Port: 8888}}
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

// here runs commands on this computer.
type here struct{}

func (here) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return remote.Result{Stdout: out, Stderr: exit.Stderr, Exit: exit.ExitCode()}, nil
	}
	return remote.Result{Stdout: out}, err
}

func TestAPageThatTheLoginNodeReachesIsOpenToTheNetwork(t *testing.T) {
	p := New(Options{}) // nothing more is dialled
	for _, tt := range []struct {
		reach api.Reach
		open  api.Exposure
		want  api.Exposure
	}{
		{api.ReachLogin, api.ExposureNode, api.ExposureNetwork},
		{api.ReachLogin, "", ""},
		{api.ReachHere, api.ExposureNode, api.ExposureNode},
	} {
		ep := api.Endpoint{Host: "cn01", Port: 8888, Reach: tt.reach, Exposure: tt.open}
		if p.findExposure(t.Context(), nil, &ep); ep.Exposure != tt.want {
			t.Errorf("by %s, open to %q: got %q, want %q", tt.reach, tt.open, ep.Exposure, tt.want)
		}
	}
}

func TestAPageIsNotOpenedBeforeItsPasswordIsKnown(t *testing.T) {
	limits := DefaultLimits()
	p := New(Options{Limits: limits})
	file := filepath.Join(t.TempDir(), "server.json")
	f := detect.Finding{Found: true, Doubt: true, RuntimeFile: file, Endpoint: api.Endpoint{App: "novnc", Scheme: "http", Host: "cn01", Port: 12345, Path: "/vnc.html"}}
	resolve := func(since time.Time) (api.Endpoint, error) {
		files := jobwatch.NewWatcher(here{}, jobwatch.Options{Scheduler: "slurm"}).RuntimeFiles(here{}, api.Job{ID: "7", Node: "cn01"})
		return p.resolve(t.Context(), &Target{Finding: f, Files: files}, since)
	}
	if _, err := resolve(time.Now()); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("while the file is not seen yet: %v", err)
	}
	if ep, err := resolve(time.Now().Add(-limits.TokenGrace)); err != nil || ep.Port != 12345 {
		t.Errorf("after the grace: %+v, %v", ep, err)
	}
	if err := os.WriteFile(file, []byte(`{"app": "novnc", "hostname": "cn01", "port": 12345, "base_url": "/vnc.html", "token": "AbCd1234"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ep, err := resolve(time.Now())
	if err != nil || ep.Token.Reveal() != "AbCd1234" {
		t.Errorf("once the file is there: %+v, %v", ep, err)
	}
}

func TestAResultThatNobodyReadsDoesNotHoldTheProber(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	New(Options{}).send(ctx, Result{})
}

func TestAJobThatCannotBeEnteredIsTriedSeldom(t *testing.T) {
	p := New(Options{Limits: DefaultLimits()})
	now, before := time.Now(), time.Now().Add(-2*time.Minute)
	for _, tt := range []struct {
		shell bool
		since time.Time
		want  time.Duration
	}{{false, now, time.Second}, {false, before, 10 * time.Second}, {true, now, 10 * time.Second}, {true, before, time.Minute}} {
		if got := p.pause(&Target{Shell: tt.shell}, tt.since); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
