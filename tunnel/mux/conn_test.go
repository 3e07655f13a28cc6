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

func (m master) attach(t *testing.T) (*Conn, error) {
	t.Helper()
	c, err := Attach(t.Context(), m.path)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = c.Close()
		c.Wait()
	})
	return c, nil
}

// listen asks for a listener at a port of the host.
func listen(c *Conn) (bool, []byte, error) {
	return c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
		Host string
		Port uint32
	}{"127.0.0.1", 1}))
}

// answers makes a control socket that says hello, and answers each request.
func answers(t *testing.T, answer func(l link, request []byte)) master {
	t.Helper()
	return newMaster(t, func(l link) {
		_, _, _ = l.read()
		_ = l.write(struct{ Kind, Version uint32 }{msgHello, version})
		if _, request, err := l.read(); err == nil {
			answer(l, request)
		}
	})
}

func TestWhatIsNoMasterIsNotUsed(t *testing.T) {
	for name, says := range map[string][]byte{
		"nothing":         nil,
		"another version": {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 3},
		"too much":        {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		"too little":      {0, 0, 0, 2, 0, 0},
		"no hello":        {0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 4},
		"a web server":    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		m := newMaster(t, func(l link) { _, _ = l.Write(says) })
		if _, err := m.attach(t); err == nil {
			t.Errorf("%s: used", name)
		}
	}
}

func TestAMastersNoIsAnAnswer(t *testing.T) {
	m := answers(t, func(l link, _ []byte) {
		_ = l.write(struct {
			Kind, ID uint32
			Reason   string
		}{serverFailure, 0, "Port forwarding failed"})
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = listen(c)
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || refused.Reason != ssh.Prohibited {
		t.Errorf("a listener: %v", err)
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
		kinds := []uint32{msgHello, serverOK, serverPermissionDenied, serverFailure, serverRemotePort, random.Uint32()}
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
	m := answers(t, func(l link, _ []byte) {
		_, _ = l.Write(nonsense())
		_ = l.Conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		_, _, _ = listen(c)
	}
}

func TestTheEndOfTheConnectionEndsEveryWait(t *testing.T) {
	waiting := make(chan struct{})
	m := answers(t, func(l link, _ []byte) {
		waiting <- struct{}{}
		_, _ = io.Copy(io.Discard, l)
	})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := listen(c)
		ended <- err
	}()
	<-waiting
	_ = c.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still waiting")
	}
}

func TestAMasterThatTakesNoMoreRequestsHasEnded(t *testing.T) {
	m := answers(t, func(link, []byte) {})
	c, err := m.attach(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := listen(c); err == nil {
		t.Error("no error")
	}
	c.Wait()
}

func TestOnlyALiveMasterMakesAStreamsEndComplete(t *testing.T) {
	for _, dies := range []bool{false, true} {
		to := make(chan string, 1)
		m := answers(t, func(l link, request []byte) {
			var f struct {
				ID, Type uint32
				Listen   string
				Port     uint32
				To       string
				ToPort   uint32
			}
			if ssh.Unmarshal(request, &f) == nil {
				to <- f.To
			}
			_ = l.write(struct{ Kind, ID uint32 }{serverOK, 0})
		})
		c, err := m.attach(t)
		if err != nil {
			t.Fatal(err)
		}
		if ok, _, err := listen(c); !ok || err != nil {
			t.Fatal(ok, err)
		}
		sender, err := net.Dial("unix", <-to)
		if err != nil {
			t.Fatal(err)
		}
		ch, requests, err := (<-c.Channels()).Accept()
		if err != nil {
			t.Fatal(err)
		}
		go ssh.DiscardRequests(requests)
		_, _ = io.WriteString(sender, "half")
		if dies {
			_ = os.Remove(m.path)
		}
		_ = sender.Close()
		if got, err := io.ReadAll(ch); string(got) != "half" || errors.Is(err, io.ErrUnexpectedEOF) != dies {
			t.Errorf("the master dies: %v; read %q, %v", dies, got, err)
		}
		_ = ch.Close()
	}
}
