//go:build unix

package mux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// master is a control socket that answers as a test says.
type master struct {
	path string
}

func newMaster(t *testing.T, answer func(l link)) master {
	t.Helper()
	dir, err := os.MkdirTemp("", "mux-") // a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	m := master{filepath.Join(dir, "s")}
	listener, err := net.Listen("unix", m.path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				answer(link{c})
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return m
}

func (m master) attach(t *testing.T) (*ssh.Client, error) {
	t.Helper()
	raw, err := net.Dial("unix", m.path)
	if err != nil {
		t.Fatal(err)
	}
	c, channels, requests, err := Attach(raw, Options{Path: m.path})
	if err != nil {
		return nil, err
	}
	client := ssh.NewClient(c, channels, requests)
	t.Cleanup(func() {
		_ = client.Close()
		_ = client.Wait()
	})
	return client, nil
}

// greeted answers a hello, and says whether the request that follows is a check.
func greeted(l link) (check bool) {
	_, _, _ = l.read()
	_ = l.write(struct{ Kind, Version uint32 }{msgHello, version})
	kind, _, err := l.read()
	if err != nil || kind != clientAliveCheck {
		return false
	}
	_ = l.write(struct{ Kind, ID, PID uint32 }{serverAlive, 0, 1})
	return true
}

func TestWhatIsNoMasterIsNotRidden(t *testing.T) {
	for name, says := range map[string][]byte{
		"nothing":         nil,
		"another version": {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 3},
		"too much":        {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		"too little":      {0, 0, 0, 2, 0, 0},
		"no hello":        {0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 4},
		"a hello alone":   {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 4},
		"no answer":       {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8, 0x80, 0, 0, 1, 0, 0, 0, 0},
		"a web server":    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		m := newMaster(t, func(l link) { _, _ = l.Write(says) })
		if _, err := m.attach(t); err == nil {
			t.Errorf("%s: used", name)
		}
	}
}

func TestAMastersNoIsAnAnswer(t *testing.T) {
	m := newMaster(t, func(l link) {
		if greeted(l) {
			_, _ = io.Copy(io.Discard, l)
			return
		}
		_ = l.write(struct {
			Kind, ID uint32
			Reason   string
		}{serverFailure, 0, "Session open refused by peer"})
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Dial("tcp", "127.0.0.1:1")
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || refused.Reason != ssh.ConnectionFailed {
		t.Errorf("a stream: %v", err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run("true")
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || refused.Reason != ssh.ResourceShortage {
		t.Errorf("a session: %v", err)
	}
	if _, _, err := c.OpenChannel("x11", nil); err == nil {
		t.Error("an unknown channel was opened")
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); ok || err != nil {
		t.Errorf("a keepalive reached the master: %v %v", ok, err)
	}
}

// Whatever a master says, each request ends, with an error or without.
func TestAMasterThatTalksNonsenseKeepsNobodyWaiting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	nonsense := func() []byte {
		mu.Lock()
		defer mu.Unlock()
		kinds := []uint32{msgHello, serverOK, serverPermissionDenied, serverFailure, serverExitMessage, serverAlive, serverSessionOpened, serverRemotePort, random.Uint32()}
		var out bytes.Buffer
		for range random.IntN(4) {
			body := binary.BigEndian.AppendUint32(nil, kinds[random.IntN(len(kinds))])
			for range random.IntN(20) {
				body = append(body, byte(random.IntN(3)))
			}
			size := uint32(len(body))
			if random.IntN(10) == 0 {
				size = random.Uint32()
			}
			out.Write(append(binary.BigEndian.AppendUint32(nil, size), body...))
		}
		return out.Bytes()
	}
	m := newMaster(t, func(l link) {
		if greeted(l) {
			_, _ = io.Copy(io.Discard, l)
			return
		}
		_, _ = l.Write(nonsense())
		_ = l.Conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if nc, err := c.Dial("tcp", "127.0.0.1:1"); err == nil {
			_, _ = io.Copy(io.Discard, nc)
			_ = nc.Close()
		}
		if s, err := c.NewSession(); err == nil {
			_ = s.Run("true")
			_ = s.Close()
		}
		if l, err := c.Listen("tcp", "127.0.0.1:1"); err == nil {
			_ = l.Close()
		}
	}
}

func TestTheEndOfTheConnectionEndsEveryWait(t *testing.T) {
	waiting := make(chan struct{}, 2)
	m := newMaster(t, func(l link) {
		if !greeted(l) {
			waiting <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := c.Dial("tcp", "127.0.0.1:1")
		ended <- err
	}()
	go func() {
		s, err := c.NewSession()
		if err == nil {
			err = s.Run("true")
		}
		ended <- err
	}()
	<-waiting
	<-waiting
	_ = c.Close()
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("no error")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("still waiting")
		}
	}
}

func TestAClosedSessionDoesNotWaitForTheHost(t *testing.T) {
	waiting := make(chan struct{}, 1)
	m := newMaster(t, func(l link) {
		if !greeted(l) {
			waiting <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run("true") }()
	<-waiting
	_ = s.Close()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
}

func TestAMasterThatTakesNoMoreRequestsHasEnded(t *testing.T) {
	m := newMaster(t, func(l link) {
		greeted(l)
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("no error")
	}
	_ = c.Wait()
}

func TestSocketsLieInAFolderThatIsOursAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := privateDir()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := privateDir(); err != nil || again != dir {
		t.Errorf("the second time: %q %v", again, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := privateDir(); err == nil {
		t.Error("a folder that others can read was taken")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := privateDir(); err == nil {
		t.Error("a link was taken")
	}
}
