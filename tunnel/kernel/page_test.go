//go:build linux

package kernel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/internal/latest"
	"tunctl/tunnel/kernel"
	"tunctl/tunnel/step"
)

// server is a notebook server with one kernel, whose messages the test sends.
type server struct {
	*httptest.Server
	binary   bool
	opened   chan *websocket.Conn
	requests chan string // the ids of cells
	ended    chan struct{}
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{opened: make(chan *websocket.Conn, 10), requests: make(chan string, 100), ended: make(chan struct{}, 10)}
	mux := http.NewServeMux()
	accepted := func(w http.ResponseWriter, r *http.Request, answer string) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "br") {
			t.Error("the server may compress its answer as only a browser can read it")
		}
		if _, err := r.Cookie("login"); err != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, answer)
	}
	mux.HandleFunc("/base/api/kernels/k1", func(w http.ResponseWriter, r *http.Request) { accepted(w, r, `{"id": "k1"}`) })
	mux.HandleFunc("/base/api/sessions", func(w http.ResponseWriter, r *http.Request) {
		accepted(w, r, `[{"path": "work/train.ipynb", "kernel": {"id": "k1"}}]`)
	})
	mux.HandleFunc("/base/api/kernels/k1/channels", func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("login"); err != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{v1}, CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			return
		}
		c.SetReadLimit(-1)
		if r.Header.Get("Sec-WebSocket-Extensions") != "" {
			t.Error("the page's compression reached the server")
		}
		s.opened <- c
		for {
			form, b, err := c.Read(context.Background())
			if err != nil {
				s.ended <- struct{}{}
				return
			}
			if bytes.Contains(b, []byte("comm_msg")) {
				_ = c.Write(context.Background(), form, b)
			}
			if i := bytes.Index(b, []byte(`"cell`)); i >= 0 && bytes.Contains(b, []byte("execute_request")) {
				s.requests <- string(b[i+1 : i+6])
			}
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

const v1 = "v1.kernel.websocket.jupyter.org"

// message is one of Jupyter's, in the form of the connection.
func message(c *websocket.Conn, kind, parent string, content any) (websocket.MessageType, []byte) {
	header, _ := json.Marshal(map[string]any{"msg_id": kind + parent, "msg_type": kind})
	of := map[string]any{"msg_id": parent, "msg_type": "execute_request"}
	if kind == "execute_request" {
		header, _ = json.Marshal(map[string]any{"msg_id": parent, "msg_type": kind})
		of = map[string]any{}
	}
	parentHeader, _ := json.Marshal(of)
	body, _ := json.Marshal(content)
	metadata := []byte(`{"cellId": "c-7"}`)
	if c.Subprotocol() != v1 {
		b, _ := json.Marshal(map[string]any{
			"channel": "iopub", "header": json.RawMessage(header), "parent_header": json.RawMessage(parentHeader),
			"metadata": json.RawMessage(metadata), "content": json.RawMessage(body),
		})
		return websocket.MessageText, b
	}
	parts := [][]byte{[]byte("iopub"), header, parentHeader, metadata, body}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(parts)+1))
	at := uint64(8 * (len(parts) + 2))
	for _, part := range append(parts, nil) {
		b = binary.LittleEndian.AppendUint64(b, at)
		at += uint64(len(part))
	}
	return websocket.MessageBinary, append(b, bytes.Join(parts, nil)...)
}

func send(t *testing.T, c *websocket.Conn, kind, parent string, content any) {
	t.Helper()
	form, b := message(c, kind, parent, content)
	if err := c.Write(t.Context(), form, b); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
}

func (s *server) print(t *testing.T, c *websocket.Conn, cell string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		send(t, c, "stream", cell, map[string]string{"name": "stdout", "text": fmt.Sprintf("line %d\n", i)})
	}
}

func finish(t *testing.T, c *websocket.Conn, cell string) {
	t.Helper()
	send(t, c, "status", cell, map[string]string{"execution_state": "idle"})
}

// process is one on the node that runs the relay or a connector.
type process struct {
	io.Reader
	io.WriteCloser
	cmd   *exec.Cmd
	named chan struct{} // the relay was told of which notebook a kernel is
}

func (p *process) Write(b []byte) (int, error) {
	n, err := p.WriteCloser.Write(b)
	if bytes.Contains(b, []byte(`"notebook":`)) {
		latest.Signal(p.named)
	}
	return n, err
}

func (p *process) Close() error { return p.WriteCloser.Close() }

func start(t *testing.T, home string) *process {
	t.Helper()
	testprogram.Need(t, "python3")
	cmd := exec.Command("sh", "-c", step.Command())
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "SLURM_JOB_ID=7"}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{out, in, cmd, make(chan struct{}, 1)}
}

// agent is what connects pages by a relay.
type agent struct {
	t    *testing.T
	conn *step.Conn
	way  *process
	home string
	to   *server

	serving sync.WaitGroup

	left  chan struct{} // pages that were seen to leave
	taken chan struct{} // writing "late" to a page takes until this

	mu    sync.Mutex
	pages []net.Conn
}

// pageWriter writes to a page.
type pageWriter struct {
	*agent
	to io.Writer
}

func (w pageWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if bytes.Contains(b, []byte("late")) {
		<-w.taken
	}
	return n, err
}

func newAgent(t *testing.T, s *server) *agent {
	t.Helper()
	return newAgentIn(t, s, newHome(t))
}

// newAgentIn is one whose user has a home on the cluster.
func newAgentIn(t *testing.T, s *server, home string) *agent {
	t.Helper()
	a := &agent{t: t, to: s, home: home, left: make(chan struct{}, 100), taken: make(chan struct{})}
	a.way = start(t, a.home)
	var err error
	if a.conn, err = step.Start(t.Context(), a.way, step.Options{Job: "7", Port: s.Listener.Addr().(*net.TCPAddr).Port, Resumable: true, Journals: a.home}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.conn.Close() })
	return a
}

// successor is the agent after this one, which was killed.
func (a *agent) successor() *agent {
	a.t.Helper()
	ticket := a.conn.Ticket()
	a.conn.Fail(errors.New("killed"))
	a.serving.Wait()
	_ = a.way.Close()
	a.closePages()
	next := &agent{t: a.t, to: a.to, home: a.home, way: start(a.t, a.home), left: a.left, taken: a.taken}
	var err error
	if next.conn, err = step.TakeOver(a.t.Context(), next.way, ticket, step.Options{Journals: a.home}); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = next.conn.Close() })
	return next
}

// newHome is a home folder in which the relay may write for a moment after its end.
func newHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "home") //nolint:usetesting // that fails where a file is written while it is removed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wait.Until(t, "nobody writes there", func() bool { return os.RemoveAll(home) == nil }) })
	return home
}

func (a *agent) closePages() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.pages {
		_ = c.Close()
	}
	a.pages = nil
}

// serve connects one page, as a forward does.
func (a *agent) serve(client net.Conn) {
	in := bufio.NewReader(client)
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		b, err := in.ReadByte()
		if err != nil {
			return
		}
		head = append(head, b)
	}
	r, ok := kernel.Parse(head)
	if !ok {
		a.t.Errorf("%q is no page's request", head)
		return
	}
	ctx, address := context.Background(), a.to.Listener.Addr().String()
	server := r.Server(func(ctx context.Context) (net.Conn, error) { return a.conn.Dial(ctx, "tcp", address, nil) })
	k := r.Kernel
	k.Name, k.Collect = "nb", true
	conn, err := (*step.KernelConn)(nil), step.ErrNotKept
	if a.conn.Keeps(k) && server.Accepts(ctx) == nil {
		conn, err = a.conn.Continue(ctx, k)
	}
	if errors.Is(err, step.ErrNotKept) {
		conn, err = a.conn.DialKernel(ctx, "tcp", address, r.Bytes, k)
	}
	if err != nil {
		a.t.Log(err)
		_ = client.Close()
		return
	}
	page := kernel.New(conn, server)
	go func() {
		_, _ = io.Copy(page, in)
		_ = page.CloseWrite()
		a.left <- struct{}{}
	}()
	_, _ = io.Copy(pageWriter{a, client}, page)
	_ = client.Close()
}

// open opens a page's WebSocket.
func (a *agent) open(session string, change func(http.Header)) (*websocket.Conn, error) {
	a.t.Helper()
	header := http.Header{"Cookie": {"login=yes"}, "Origin": {"http://localhost:8888"}, "Accept-Encoding": {"gzip, br"}}
	var protocols []string
	if a.to.binary {
		protocols = []string{v1}
	}
	if change != nil {
		change(header)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		accepted, err := l.Accept()
		if err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.pages = append(a.pages, accepted)
		a.mu.Unlock()
		a.serving.Go(func() { a.serve(accepted) })
		return c, nil
	}}}
	ctx, cancel := context.WithTimeout(a.t.Context(), wait.Limit)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://localhost:8888/base/api/kernels/k1/channels?session_id="+session, &websocket.DialOptions{ //nolint:bodyclose // there is none
		HTTPClient: client, HTTPHeader: header, Subprotocols: protocols, CompressionMode: websocket.CompressionContextTakeover,
	})
	if err == nil {
		c.SetReadLimit(-1)
	}
	return c, err
}

func (a *agent) must(session string) *websocket.Conn {
	a.t.Helper()
	c, err := a.open(session, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// lines reads what a page gets, up to a line or the end of the cell.
func lines(t *testing.T, c *websocket.Conn, last string) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		if i := bytes.Index(b, []byte("line ")); i >= 0 {
			text, _, _ := strings.Cut(string(b[i:]), `\n`)
			if got = append(got, text); text == last {
				return got
			}
		}
		if last == "" && bytes.Contains(b, []byte(`"idle"`)) {
			return got
		}
	}
}

func expect(t *testing.T, got []string, from, to int) {
	t.Helper()
	var want []string
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprintf("line %d", i))
	}
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("the page got %d lines, want %d to %d: %.200q", len(got), from, to, got)
	}
}

// collected is what was written down of cells.
func (a *agent) collected() (text string) {
	files, _ := filepath.Glob(filepath.Join(a.home, ".tunctl/output/nb/*.jsonl"))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		text += string(b)
	}
	return text
}

// forms are those of messages.
func forms(t *testing.T, run func(t *testing.T, s *server)) {
	for _, form := range []string{"json", v1} {
		t.Run(form, func(t *testing.T) {
			s := newServer(t)
			s.binary = form == v1
			run(t, s)
		})
	}
}

func TestPageThatComesBack(t *testing.T) {
	forms(t, func(t *testing.T, s *server) {
		a := newAgent(t, s)
		page := a.must("s1")
		c := <-s.opened
		send(t, page, "execute_request", "cell1", map[string]string{"code": "train()"})
		<-s.requests
		s.print(t, c, "cell1", 0, 5)
		expect(t, lines(t, page, "line 4"), 0, 5)
		a.closePages()
		s.print(t, c, "cell1", 5, 10)
		a.serving.Wait() // until it is noted what the page has
		page = a.must("s1")
		expect(t, lines(t, page, "line 9"), 5, 10)
		a = a.successor()
		s.print(t, c, "cell1", 10, 400)
		page = a.must("s1")
		s.print(t, c, "cell1", 400, 420)
		finish(t, c, "cell1")
		expect(t, lines(t, page, ""), 10, 420)
		// The same connection serves the next cell.
		send(t, page, "execute_request", "cell2", map[string]string{"code": "2"})
		if id := <-s.requests; id != "cell2" {
			t.Errorf("the server got %q", id)
		}
		finish(t, c, "cell2")
		lines(t, page, "")
		_ = page.Close(websocket.StatusNormalClosure, "")
		<-s.ended
		wait.Until(t, "nothing is collected of what the page has", func() bool { return a.collected() == "" })
	})
}

func TestPageThatIsGone(t *testing.T) {
	forms(t, func(t *testing.T, s *server) {
		a := newAgent(t, s)
		page := a.must("s1")
		c := <-s.opened
		wait.For(t, "the name of the notebook", a.way.named)
		send(t, page, "execute_request", "cell1", map[string]string{"code": "train()"})
		<-s.requests
		s.print(t, c, "cell1", 0, 5)
		lines(t, page, "line 4")
		_ = page.Close(websocket.StatusGoingAway, "")
		wait.Until(t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
		s.print(t, c, "cell1", 5, 600)
		finish(t, c, "cell1")
		<-s.ended
		wait.Until(t, "the cell is finished", func() bool { return a.conn.Cells().Finished == 1 && a.conn.Cells().Running == 0 })
		wait.Until(t, "it is written down", func() bool { return strings.Contains(a.collected(), `"how": "finished"`) })
		text := a.collected()
		root, _ := os.Getwd() // of the server's process
		for _, want := range []string{`"code": "train()"`, `"cell": "c-7"`, `"notebook": "work/train.ipynb"`, `"root": "` + root + `"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %.600s", want, text)
			}
		}
		if n := strings.Count(text, "line "); n != 600 {
			t.Errorf("%d lines were collected", n)
		}
		// The page comes back after the end: it gets what it missed, and nothing of it stays collected.
		page = a.must("s1")
		expect(t, lines(t, page, ""), 5, 600)
		wait.Until(t, "nothing is collected of what the page has", func() bool { return a.collected() == "" })
	})
}

func TestPageThatLeavesAtOnce(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	page := a.must("s1")
	c := <-s.opened
	send(t, page, "execute_request", "cell1", map[string]string{"code": "train()"})
	<-s.requests
	for _, m := range []struct {
		kind, want string
		content    map[string]string
	}{
		{"stream", "line 1 late", map[string]string{"text": "line 1 late\n"}},
		{"status", "", map[string]string{"execution_state": "idle", "is": "late"}},
	} {
		send(t, c, m.kind, "cell1", m.content)
		if got := lines(t, page, m.want); m.want == "" && len(got) > 0 {
			t.Errorf("%q came again", got)
		}
		_ = page.CloseNow()
		<-a.left
		a.taken <- struct{}{}
		if m.want != "" {
			wait.Until(t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
			page = a.must("s1")
		}
	}
	<-s.ended
	wait.Until(t, "nothing is collected of what the page has", func() bool { return a.conn.Cells() == api.Cells{} && a.collected() == "" })
}

func TestPageOfAnotherOrigin(t *testing.T) {
	for name, change := range map[string]func(http.Header){
		"without a cookie": func(h http.Header) { h.Del("Cookie") },
		"another origin":   func(h http.Header) { h.Set("Origin", "http://localhost:9999") },
		"another session":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			a := newAgent(t, s)
			page := a.must("s1")
			c := <-s.opened
			send(t, page, "execute_request", "cell1", map[string]string{"code": "secret()"})
			<-s.requests
			a.closePages()
			s.print(t, c, "cell1", 0, 5)
			session := "s1"
			if change == nil {
				session = "s2"
			}
			if _, err := a.open(session, change); err == nil {
				other := <-s.opened // the server decides
				s.print(t, other, "cell1", 900, 901)
			} else if change == nil {
				t.Fatal(err)
			}
			page = a.must("s1")
			finish(t, c, "cell1")
			expect(t, lines(t, page, ""), 0, 5)
		})
	}
}

// gone has a page run a cell and leave.
func (a *agent) gone() (server *websocket.Conn) {
	a.t.Helper()
	page := a.must("s1")
	server = <-a.to.opened
	send(a.t, page, "execute_request", "cell1", map[string]string{"code": "train()"})
	<-a.to.requests
	a.closePages()
	wait.Until(a.t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
	return server
}

func TestPageThatCannotContinueYet(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	c := a.gone()
	k := step.Kernel{ID: "k1", Session: "s1", Origin: "http://localhost:8888", Name: "nb", Collect: true}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.conn.Continue(ctx, k); err == nil || errors.Is(err, step.ErrNotKept) || !a.conn.Keeps(k) {
		t.Errorf("%v", err)
	}
	s.print(t, c, "cell1", 0, 5)
	finish(t, c, "cell1")
	expect(t, lines(t, a.must("s1"), ""), 0, 5)
}

func TestServerThatAccepts(t *testing.T) {
	s := newServer(t)
	for name, tt := range map[string]struct {
		change func(string) string
		err    error // of dialling
		keeps  error // step.ErrNotKept: it was refused
		ok     bool
	}{
		"accepted":       {ok: true},
		"no cookie":      {change: func(r string) string { return strings.Replace(r, "login", "other", 1) }, keeps: step.ErrNotKept},
		"another kernel": {change: func(r string) string { return strings.Replace(r, "k1", "k2", 1) }, keeps: step.ErrNotKept},
		"not reached":    {err: io.ErrUnexpectedEOF, keeps: io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			request := "GET /base/api/kernels/k1/channels?session_id=s1&token=a%26b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nCookie: login=1\r\n\r\n"
			if tt.change != nil {
				request = tt.change(request)
			}
			r, ok := kernel.Parse([]byte(request))
			if !ok {
				t.Fatal("it is no page's request")
			}
			err := r.Server(func(context.Context) (net.Conn, error) {
				if tt.err != nil {
					return nil, tt.err
				}
				return net.Dial("tcp", s.Listener.Addr().String())
			}).Accepts(t.Context())
			if !errors.Is(err, tt.keeps) || tt.ok != (err == nil) {
				t.Error(err)
			}
		})
	}
	if _, ok := kernel.Parse([]byte("GET /api/kernels/k1/channels?session_id=" + strings.Repeat("s", 2<<10) + " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n")); ok {
		t.Error("a page's name of any length is remembered")
	}
}

func TestPageAndFullHome(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	full := filepath.Join(a.home, ".tunctl") // no folder can be made there
	if err := os.WriteFile(full, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := a.gone()
	s.print(t, c, "cell1", 0, 5)
	finish(t, c, "cell1")
	wait.Until(t, "the trouble is told", func() bool { return a.conn.Cells().Trouble != "" && a.conn.Cells().Finished == 1 })
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is written down then", func() bool { return strings.Count(a.collected(), "line ") == 5 && a.conn.Cells().Trouble == "" })
	if info, err := os.Stat(filepath.Join(full, "output")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestPageThatSendsNoFrames(t *testing.T) {
	for name, garbage := range map[string][]byte{
		"a control frame too long": append([]byte{0x89, 0xfe, 0x40, 0}, make([]byte, 1<<14)...),
		"a length without end":     append([]byte{0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255}, make([]byte, 1<<16)...),
		"reserved bits, no mask":   bytes.Repeat([]byte{0x7f, 0x05}, 1<<14),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			a := newAgent(t, s)
			c := a.gone()
			hostile, theirs := net.Pipe()
			a.serving.Go(func() { a.serve(theirs) })
			go func() { _, _ = io.Copy(io.Discard, hostile) }()
			_, _ = io.WriteString(hostile, "GET /base/api/kernels/k1/channels?session_id=s2 HTTP/1.1\r\nHost: x\r\nCookie: login=1\r\nUpgrade: websocket\r\n"+
				"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
			<-s.opened
			_, _ = hostile.Write(garbage)
			_ = hostile.Close()
			<-s.ended
			s.print(t, c, "cell1", 0, 5)
			finish(t, c, "cell1")
			expect(t, lines(t, a.must("s1"), ""), 0, 5)
		})
	}
}

func TestPageWithoutCells(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	a.must("s1")
	<-s.opened
	a.closePages()
	<-s.ended
	page := a.must("s1")
	c := <-s.opened
	for i, end := range []struct {
		kind, how string
		content   any
	}{
		{"execute_reply", "not run", map[string]string{"status": "aborted"}},
		{"status", "restarted", map[string]string{"execution_state": "restarting"}},
		{"status", "died", map[string]string{"execution_state": "dead"}},
	} {
		send(t, page, "execute_request", "cell1", map[string]string{"code": "1"})
		<-s.requests
		a.closePages()
		wait.Until(t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
		send(t, c, end.kind, "cell1", end.content)
		<-s.ended // nothing waits for ever
		wait.Until(t, "its end is written down", func() bool { return strings.Contains(a.collected(), end.how) })
		page = a.must("other" + strconv.Itoa(i))
		c = <-s.opened
	}
}

func TestPageThatMissesMuch(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	page := a.must("s1")
	c := <-s.opened
	send(t, page, "execute_request", "cell1", map[string]string{"code": "much()"})
	<-s.requests
	a.closePages()
	wait.Until(t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
	const size = 20 << 20
	send(t, c, "stream", "cell1", map[string]string{"name": "stdout", "text": strings.Repeat("x", size/2)})
	s.print(t, c, "cell1", 0, 3000)
	send(t, c, "stream", "cell1", map[string]string{"name": "stdout", "text": strings.Repeat("x", size/2)})
	finish(t, c, "cell1")
	page = a.must("s1")
	expect(t, lines(t, page, ""), 0, 3000)
}

func TestPageWidgets(t *testing.T) {
	forms(t, func(t *testing.T, s *server) {
		a := newAgent(t, s)
		page := a.must("s1")
		c := <-s.opened
		send(t, page, "execute_request", "cell1", map[string]string{"code": "slider()"})
		<-s.requests
		read := func(want []byte) {
			t.Helper()
			if form, b, err := page.Read(t.Context()); err != nil || form != websocket.MessageBinary || !bytes.Equal(b, want) {
				t.Fatalf("%d bytes came as %d, %v", len(want), len(b), err)
			}
		}
		for _, size := range []int{0, 1000, 3 << 20, 17 << 20} { // the last one is longer than what is looked at
			buffers := []byte("comm_msg execute_request execution_state")
			for i := range size {
				buffers = append(buffers, byte(i*i>>8))
			}
			if err := page.Write(t.Context(), websocket.MessageBinary, buffers); err != nil {
				t.Fatal(err)
			}
			read(buffers)
		}
		// While the page is away, they wait for it. They are no output.
		a.closePages()
		wait.Until(t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
		moved := bytes.Repeat([]byte("comm_msg\x00\xff"), 500_000)
		if err := c.Write(t.Context(), websocket.MessageBinary, moved); err != nil {
			t.Fatal(err)
		}
		send(t, c, "comm_msg", "cell1", map[string]string{"data": "moved"})
		s.print(t, c, "cell1", 0, 1)
		wait.Until(t, "the output is written down", func() bool { return strings.Contains(a.collected(), "line 0") })
		if strings.Contains(a.collected(), "moved") {
			t.Error("what a widget sends is collected")
		}
		page = a.must("s1")
		read(moved)
		finish(t, c, "cell1")
		expect(t, lines(t, page, ""), 0, 1)
	})
}

func TestPagesInTwoTabs(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	var servers []*websocket.Conn
	cells := []string{"cell1", "cell2"}
	for i, cell := range cells {
		page := a.must("tab" + strconv.Itoa(i))
		servers = append(servers, <-s.opened)
		send(t, page, "execute_request", cell, map[string]string{"code": "train()"})
		<-s.requests
	}
	a.closePages()
	wait.Until(t, "the cells run without their pages", func() bool { return a.conn.Cells().Running == 2 })
	for i, cell := range cells { // the kernel tells both of both
		for _, c := range servers {
			s.print(t, c, cell, 50*i, 50*(i+1))
			finish(t, c, cell)
		}
	}
	wait.Until(t, "both are written down", func() bool { return strings.Count(a.collected(), `"how": "finished"`) == 2 })
	if n := strings.Count(a.collected(), "line "); n != 100 {
		t.Errorf("%d lines were collected", n)
	}
	for i := range cells {
		page := a.must("tab" + strconv.Itoa(i))
		expect(t, lines(t, page, ""), 0, 50)
		expect(t, lines(t, page, ""), 50, 100)
	}
	wait.Until(t, "nothing is collected of what the pages have", func() bool { return a.conn.Cells() == api.Cells{} && a.collected() == "" })
}

func TestPagesOfTwoLaptops(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	b := newAgentIn(t, s, a.home)
	first := a.gone()
	s.print(t, first, "cell1", 0, 5)
	page := b.must("s1") // it has the ids of the other's
	second := <-s.opened
	send(t, page, "execute_request", "cell2", map[string]string{"code": "train()"})
	<-s.requests
	b.closePages()
	wait.Until(t, "each knows its own", func() bool { return a.conn.Cells().Running == 1 && b.conn.Cells().Running == 1 })
	s.print(t, second, "cell2", 5, 10)
	finish(t, second, "cell2")
	wait.Until(t, "the second is finished", func() bool { return b.conn.Cells().Finished == 1 })
	finish(t, first, "cell1")
	wait.Until(t, "both are written down", func() bool { return strings.Count(a.collected(), `"how": "finished"`) == 2 })
	expect(t, lines(t, a.must("s1"), ""), 0, 5)
	wait.Until(t, "only what the second page has not is left", func() bool { return strings.Count(a.collected(), "line ") == 5 && b.conn.Cells().Finished == 1 })
	expect(t, lines(t, b.must("s1"), ""), 5, 10)
}

func TestPageAtJobEnd(t *testing.T) {
	s := newServer(t)
	a := newAgent(t, s)
	page := a.must("s1")
	c := <-s.opened
	send(t, page, "execute_request", "cell1", map[string]string{"code": "train()"})
	<-s.requests
	a.closePages()
	wait.Until(t, "the cell runs without its page", func() bool { return a.conn.Cells().Running == 1 })
	s.print(t, c, "cell1", 0, 100)
	send(t, c, "input_request", "cell1", map[string]string{"prompt": "go on?"})
	wait.Until(t, "the cell waits for input", func() bool { return a.conn.Cells().Waiting == 1 })
	if err := a.way.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the end of the job is written down", func() bool { return strings.Contains(a.collected(), "the job ended") })
	if n := strings.Count(a.collected(), "line "); n != 100 {
		t.Errorf("%d lines were collected", n)
	}
}
