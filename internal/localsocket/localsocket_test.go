package localsocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/dev/must"
)

// socketPath is short enough for a unix socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tunctl-")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "agent.sock")
}

func listen(t *testing.T, path string) *Listener {
	t.Helper()
	l, err := Listen(t.Context(), path)
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustDial(t *testing.T, path string) Conn {
	t.Helper()
	c, err := Dial(t.Context(), path)
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// pair is a connection from both ends.
func pair(t *testing.T) (client Conn, server net.Conn) {
	t.Helper()
	path := socketPath(t)
	l := listen(t, path)
	client = mustDial(t, path)
	server, err := l.Accept()
	must.Do(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func TestCloseWrite(t *testing.T) {
	client, server := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than any buffer between the two
	go func() {
		_, _ = client.Write(sent)
		_, _ = client.Write(nil) // is no end
		_, _ = client.Write([]byte("end"))
		_ = client.CloseWrite()
	}()
	got, err := io.ReadAll(server)
	if err != nil || !bytes.Equal(got, append(sent, "end"...)) {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	if n, err := server.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
	if _, err := client.Write([]byte("x")); err == nil {
		t.Error("a closed direction takes bytes")
	}
	go func() {
		_, _ = server.Write(sent)
		_ = server.(Conn).CloseWrite()
	}()
	if got, err = io.ReadAll(client); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("back came %d bytes, %v", len(got), err)
	}
}

func TestCloseAfterWrite(t *testing.T) {
	client, server := pair(t)
	if _, err := server.Write([]byte("the last words")); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	if got, err := io.ReadAll(client); err != nil || string(got) != "the last words" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReadDeadline(t *testing.T) {
	client, server := pair(t)
	must.Do(t, client.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := client.Read(make([]byte, 1))
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("err = %v", err)
	}
	must.Do(t, client.SetReadDeadline(time.Time{}))
	go func() { _, _ = server.Write([]byte("x")) }()
	if n, err := client.Read(make([]byte, 1)); n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestCloseEndsReads(t *testing.T) {
	client, server := pair(t)
	ended := make(chan error, 1)
	go func() { _, err := server.Read(make([]byte, 1)); ended <- err }()
	_ = server.Close()
	if err := <-ended; err == nil {
		t.Error("a closed connection is read")
	}
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the other end does not notice")
	}

	path := socketPath(t)
	l := listen(t, path)
	go func() { _, err := l.Accept(); ended <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("err = %v, want net.ErrClosed", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("err = %v, want net.ErrClosed", err)
	}
	if _, err := Dial(t.Context(), path); !NobodyListens(err) {
		t.Errorf("err = %v: somebody listens", err)
	}
}

func TestDialNobody(t *testing.T) {
	path := socketPath(t)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	_, err := Dial(t.Context(), path)
	if op, ok := errors.AsType[*net.OpError](err); !NobodyListens(err) || !ok || op.Op != "dial" {
		t.Errorf("err = %v", err)
	}
}

func TestListenAgain(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path)
	old := mustDial(t, path)
	accepted, err := l.Accept()
	must.Do(t, err)
	_, _ = l.Close(), accepted.Close()
	l = listen(t, path)
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("new"))
			_ = c.Close()
		}
	}()
	if got, err := io.ReadAll(mustDial(t, path)); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := old.Read(make([]byte, 1)); err == nil {
		t.Error("the old connection goes on")
	}
}

func TestManyRequests(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	web := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, path) },
	}}
	body := strings.Repeat("x", 200_000)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			res, err := web.Post("http://tunctl/", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	serving.Wait()
}
