package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHost is the host behind the gateway: an SSH server whose channels a test serves.
type fakeHost struct {
	Machine  // dials nothing
	client   *ssh.Client
	requests atomic.Int32  // about the whole connection
	gate     chan struct{} // sessions wait for it; nil: they do not
}

func (f *fakeHost) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	return f.client.OpenChannel(kind, payload)
}

func key(t testing.TB) ssh.Signer {
	t.Helper()
	k, err := HostKey(t.TempDir())
	must.Do(t, err)
	return k
}

// newFakeHost is a host that serves each channel with serve.
func newFakeHost(t *testing.T, serve func(ssh.NewChannel)) *fakeHost {
	t.Helper()
	f := &fakeHost{}
	s := sshtest.NewServer(t, sshtest.AcceptAnybody)
	s.Channel = serve
	s.Used = func(what string, n int) {
		if what == "requests" {
			f.requests.Add(int32(n))
		}
	}
	f.client = s.Client(t)
	return f
}

// newClient is a client of a gateway to a host, with some other options.
func newClient(t *testing.T, host Machine, change ...func(*Options)) *ssh.Client {
	t.Helper()
	near, there := sshtest.NewLink()
	served := make(chan error, 1)
	own := key(t)
	notice := time.Hour // on a busy machine, opening a channel may take a second
	if f, ok := host.(*fakeHost); ok && f.gate != nil {
		notice = 10 * time.Millisecond
	}
	o := Options{Name: "far", Host: host, Key: own, Log: slog.New(slog.DiscardHandler), NoticeAfter: notice}
	for _, f := range change {
		f(&o)
	}
	go func() { served <- Serve(t.Context(), there, o) }()
	t.Cleanup(func() {
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return sshtest.NewClient(t, near, own.PublicKey())
}

// command serves a session whose one command copies its input to its output, says
// something on the side, and exits with 7. It fails the test for data that comes
// before the command, which sshd would drop.
func command(t *testing.T) func(ssh.NewChannel) {
	return func(nc ssh.NewChannel) {
		ch, requests, err := nc.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = ch.Close() }()
		for r := range requests {
			_ = r.Reply(r.Type == "exec", nil)
			if r.Type == "exec" {
				break
			}
		}
		go ssh.DiscardRequests(requests)
		fmt.Fprint(ch.Stderr(), "aside")
		_, _ = io.Copy(ch, ch)
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{7}))
	}
}

func TestSession(t *testing.T) {
	c := newClient(t, newFakeHost(t, command(t)))
	s, err := c.NewSession()
	must.Do(t, err)
	input := bytes.Repeat([]byte("0123456789"), 500_000) // more than two windows
	var out, aside bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = bytes.NewReader(input), &out, &aside
	err = s.Run("cat")
	if exit, ok := errors.AsType[*ssh.ExitError](err); !ok || exit.ExitStatus() != 7 {
		t.Errorf("status: %v", err)
	}
	if !bytes.Equal(out.Bytes(), input) || aside.String() != "aside" {
		t.Errorf("%d of %d bytes, aside %q", out.Len(), len(input), aside.String())
	}
}

func TestRefusal(t *testing.T) {
	c := newClient(t, newFakeHost(t, func(nc ssh.NewChannel) { _ = nc.Reject(ssh.Prohibited, "not from here") }))
	for kind, want := range map[string]ssh.RejectionReason{
		"session": ssh.Prohibited, "direct-tcpip": ssh.Prohibited, "direct-streamlocal@openssh.com": ssh.Prohibited,
		"tun@openssh.com": ssh.UnknownChannelType, "x11": ssh.UnknownChannelType,
	} {
		_, _, err := c.OpenChannel(kind, nil)
		refusal, ok := errors.AsType[*ssh.OpenChannelError](err)
		if !ok || refusal.Reason != want || want == ssh.Prohibited && refusal.Message != "not from here" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestSessionWaits(t *testing.T) {
	f := newFakeHost(t, command(t))
	f.gate = make(chan struct{})
	c := newClient(t, f)
	s, err := c.NewSession()
	must.Do(t, err)
	aside, err := s.StderrPipe()
	must.Do(t, err)
	stdin, err := s.StdinPipe()
	must.Do(t, err)
	started := make(chan error, 1)
	go func() { started <- s.Start("cat") }()
	text := make([]byte, len("tunctl: waiting"))
	if _, err := io.ReadFull(aside, text); err != nil || string(text) != "tunctl: waiting" {
		t.Fatalf("told %q, %v", text, err)
	}
	close(f.gate)
	must.Do(t, <-started)
	go func() { _, _ = io.Copy(io.Discard, aside) }()
	_ = stdin.Close()
	if exit, ok := errors.AsType[*ssh.ExitError](s.Wait()); !ok || exit.ExitStatus() != 7 {
		t.Error("the command did not run after the wait")
	}
}

func TestSessionNotice(t *testing.T) {
	pending := []string{"the node has no python3"}
	c := newClient(t, newFakeHost(t, command(t)), func(o *Options) {
		o.Notices = func() []string {
			taken := pending
			pending = nil
			return taken
		}
	})
	for _, want := range []string{"tunctl: the node has no python3\r\n", ""} {
		s, err := c.NewSession()
		must.Do(t, err)
		var out, aside bytes.Buffer
		s.Stdin, s.Stdout, s.Stderr = strings.NewReader("data"), &out, &aside
		_ = s.Run("cat") // it exits with 7
		if out.String() != "data" || strings.Replace(aside.String(), "aside", "", 1) != want {
			t.Errorf("output %q, aside %q; want the notice %q", out.String(), aside.String(), want)
		}
	}
}

// losing is a host whose channels end with an error.
type losing struct {
	*fakeHost
	why error
}

func (l losing) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	ch, requests, err := l.fakeHost.OpenChannel(ctx, kind, payload)
	return lostChannel{ch, l.why}, requests, err
}

type lostChannel struct {
	ssh.Channel
	why error
}

func (l lostChannel) Read(p []byte) (int, error) {
	n, err := l.Channel.Read(p)
	if err != nil {
		err = l.why
	}
	return n, err
}

func TestSessionLost(t *testing.T) {
	c := newClient(t, losing{newFakeHost(t, func(nc ssh.NewChannel) {
		ch, requests, err := nc.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		for r := range requests {
			_ = r.Reply(true, nil)
			fmt.Fprint(ch, "some")
			_ = ch.Close()
		}
	}), errors.New("job 7 has ended")})
	s, err := c.NewSession()
	must.Do(t, err)
	var out, aside bytes.Buffer
	s.Stdout, s.Stderr = &out, &aside
	if _, ok := errors.AsType[*ssh.ExitMissingError](s.Run("sleep 600")); !ok || out.String() != "some" || aside.String() != "tunctl: error: job 7 has ended\r\n" {
		t.Errorf("output %q, aside %q", out.String(), aside.String())
	}
}

func TestClientLeaves(t *testing.T) {
	closed := make(chan struct{})
	f := newFakeHost(t, func(nc ssh.NewChannel) {
		_, requests, err := nc.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		ssh.DiscardRequests(requests)
		close(closed)
	})
	c := newClient(t, f)
	if _, _, err := c.OpenChannel("direct-tcpip", nil); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	wait.For(t, "the host's channel is closed", closed)
}

func TestGlobalRequests(t *testing.T) {
	f := newFakeHost(t, command(t))
	c := newClient(t, f)
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive: %v %v", ok, err)
	}
	if ok, _, err := c.SendRequest("no-more-sessions@openssh.com", true, nil); ok || err != nil {
		t.Errorf("no-more-sessions: %v %v", ok, err)
	}
	if ok, _, err := c.SendRequest("tcpip-forward", true, nil); ok || err != nil {
		t.Errorf("tcpip-forward: %v %v", ok, err)
	}
	if n := f.requests.Load(); n > 0 {
		t.Errorf("the host got %d", n)
	}
}

func TestSessionRefusedRequests(t *testing.T) {
	c := newClient(t, newFakeHost(t, command(t)))
	ch, requests, err := c.OpenChannel("session", nil)
	must.Do(t, err)
	go ssh.DiscardRequests(requests)
	for kind := range refusedRequests {
		if ok, err := ch.SendRequest(kind, true, nil); ok || err != nil {
			t.Errorf("%s: %v %v", kind, ok, err)
		}
	}
	_ = ch.Close()
}

func TestKeepalive(t *testing.T) {
	answered := make(chan error, 1)
	f := newFakeHost(t, func(nc ssh.NewChannel) {
		ch, requests, err := nc.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		go ssh.DiscardRequests(requests)
		_, err = ch.SendRequest(keepalive, true, nil)
		answered <- err
	})
	c := newClient(t, f)
	ch, requests, err := c.OpenChannel("session", nil) // and nobody reads its requests
	must.Do(t, err)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	_ = ch.Close()
	ssh.DiscardRequests(requests)
}

func TestHostKey(t *testing.T) {
	dir := t.TempDir()
	keys := make([]string, 20)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := HostKey(dir)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = string(ssh.MarshalAuthorizedKey(k.PublicKey()))
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Fatalf("two keys: %s and %s", k, keys[0])
		}
	}
	known, err := os.ReadFile(KnownHosts(dir))
	if err != nil || !strings.Contains(string(known), strings.TrimSpace(keys[0])) {
		t.Errorf("known_hosts: %q %v", known, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left over: %v %v", left, err)
	}
}

func FuzzServeSurvivesWhateverIsSent(f *testing.F) {
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x00\x0c\x0a\x14aaaaaaaaaa"))
	own := key(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		near, there := sshtest.NewLink()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Serve(t.Context(), there, Options{Host: nobody{}, Key: own, Log: slog.New(slog.DiscardHandler)})
			_ = there.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		_, _ = near.Write(data)
		_ = near.Close()
		<-done
	})
}

type nobody struct{ Machine }

func (nobody) OpenChannel(context.Context, string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return nil, nil, errors.New("nobody")
}
