package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

// kernelServer is a notebook server in the job's place whose kernel the test plays.
type kernelServer struct {
	t      *testing.T
	local  string               // where the page is on this computer
	opened chan *websocket.Conn // of pages to the kernel
	asked  chan string          // what pages sent
	ended  chan *websocket.Conn // of the opened ones
}

// kernelSession brings a session up whose page is that of a kernelServer.
func kernelSession(w *world) *kernelServer {
	w.t.Helper()
	t := w.t.(*testing.T)
	k := &kernelServer{t: t, opened: make(chan *websocket.Conn, 10), asked: make(chan string, 10), ended: make(chan *websocket.Conn, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/kernels/k1/channels", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		k.opened <- c
		for {
			_, b, err := c.Read(t.Context()) // the cluster would wait for it
			if err != nil {
				k.ended <- c
				return
			}
			k.asked <- string(b)
		}
	})
	mux.HandleFunc("/api/sessions", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"path": "train.ipynb", "kernel": {"id": "k1"}}]`))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token "+firstToken && r.URL.Query().Get("token") != firstToken && r.Header.Get("Cookie") == "" {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	started := w.idleJob("out.log")
	w.appendTo("out.log", announcement(started.Job.Node, port, firstToken))
	k.local = w.until("ready", ready).Local
	return k
}

// open opens a page's WebSocket, and returns both of its ends.
func (k *kernelServer) open() (page, server *websocket.Conn) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	page, _, err := websocket.Dial(ctx, "ws://"+k.local+"/api/kernels/k1/channels?session_id=s1", &websocket.DialOptions{ //nolint:bodyclose // there is none
		HTTPHeader: http.Header{"Cookie": {"login=yes"}, "Origin": {"http://" + k.local}},
	})
	must(k.t, err)
	return page, wait.For(k.t, "the page's WebSocket at the server", k.opened)
}

// run has a page run a cell.
func (k *kernelServer) run(page *websocket.Conn, code string) {
	k.t.Helper()
	k.send(page, "execute_request", "", map[string]string{"code": code})
	if got := wait.For(k.t, "the cell", k.asked); !strings.Contains(got, code) {
		k.t.Errorf("the kernel is asked to run %q", got)
	}
}

// print has the kernel print a line of the cell.
func (k *kernelServer) print(server *websocket.Conn, line string) {
	k.t.Helper()
	k.send(server, "stream", "cell1", map[string]string{"name": "stdout", "text": line + "\n"})
}

func (k *kernelServer) send(c *websocket.Conn, kind, parent string, content map[string]string) {
	k.t.Helper()
	id := kind
	if parent == "" {
		id = "cell1"
	}
	text, err := json.Marshal(map[string]any{
		"channel": "iopub", "header": map[string]string{"msg_id": id, "msg_type": kind}, "metadata": map[string]string{},
		"parent_header": map[string]string{"msg_id": parent, "msg_type": "execute_request"}, "content": content,
	})
	must(k.t, err)
	must(k.t, c.Write(k.t.Context(), websocket.MessageText, text))
}

// reads checks what a page is shown next.
func (k *kernelServer) reads(page *websocket.Conn, want string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	_, got, err := page.Read(ctx)
	if err != nil || !strings.Contains(string(got), want) {
		k.t.Errorf("the page is shown %q, %v, want %q", got, err, want)
	}
}

func TestCells(t *testing.T) {
	testprogram.Need(t, "python3")
	t.Parallel()
	t.Run("are collected, and are in no log and no answer", func(t *testing.T) {
		w := newWorld(t)
		log := filepath.Join(t.TempDir(), "agent.log")
		f, err := os.Create(log)
		must(t, err)
		defer func() { _ = f.Close() }()
		w.log = slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})
		w.restart(strings.Replace(config, "resume = false", "", 1), nil)
		k := kernelSession(w)
		page, server := k.open()
		k.run(page, "my_secret_code()")
		k.print(server, "my secret output 1")
		k.reads(page, "my secret output 1")
		_ = page.Close(websocket.StatusGoingAway, "")
		w.until("told of a cell that runs without its page", func(s api.Session) bool { return s.Cells.Running == 1 })
		k.print(server, "my secret output 2")
		k.send(server, "status", "cell1", map[string]string{"execution_state": "idle"})
		wait.For(t, "the end of the kept WebSocket", k.ended)
		w.until("told of a cell that is over", func(s api.Session) bool { return s.Cells.Finished == 1 })
		texts := map[string]string{"the agent's log": read(t, log)}
		if !strings.Contains(texts["the agent's log"], "level=DEBUG") {
			t.Error("not all of the log is seen")
		}
		states, err := filepath.Glob(filepath.Join(w.paths.State, "*"))
		must(t, err)
		for _, path := range states {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				texts[path] = read(t, path)
			}
		}
		history, err := w.client.History(t.Context())
		must(t, err)
		checks, err := w.client.Check(t.Context(), api.CheckRequest{Host: "practice", Session: "jupyter"})
		must(t, err)
		for name, answer := range map[string]any{"the status": w.status(), "the history": history, "the checks": checks} {
			text, err := json.Marshal(answer)
			must(t, err)
			texts[name] = string(text)
		}
		for name, text := range texts {
			if strings.Contains(text, "secret_code") || strings.Contains(text, "secret output") {
				t.Errorf("%s has the text of a cell:\n%s", name, text)
			}
		}
		wait.Until(t, "it is written down", func() bool {
			kept := w.keptCells()
			return strings.Contains(kept, "my_secret_code()") && strings.Contains(kept, "my secret output 2")
		})
	})
	t.Run("without resume go on as with ssh, and nothing is kept", func(t *testing.T) {
		w := newWorld(t)
		k := kernelSession(w)
		page, server := k.open()
		k.run(page, "train()")
		k.print(server, "line 1")
		k.reads(page, "line 1")
		_ = page.Close(websocket.StatusGoingAway, "")
		if ended := wait.For(t, "the end of the WebSocket", k.ended); ended != server {
			t.Error("another WebSocket ended")
		}
		again, server := k.open() // the cell still runs
		k.print(server, "line 2")
		k.reads(again, "line 2")
		must(t, again.CloseNow()) // as by a browser that is killed
		wait.For(t, "the end of the second WebSocket", k.ended)
		_, err := w.client.Refresh(t.Context(), "jupyter")
		must(t, err)
		if s := w.session(); s.Cells != (api.Cells{}) || !ready(s) {
			t.Errorf("%+v", s)
		}
		w.down(true)
		if kept := w.keptCells(); kept != "" {
			t.Errorf("collected is %s", kept)
		}
	})
}

// keptCells is what was written down of cells.
func (w *world) keptCells() (text string) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.cluster.Home(), ".tunctl"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".jsonl") {
			text += fmt.Sprintf("%s: %s\n", path, read(w.t, path))
		}
		return nil // it may not be there
	})
	must(w.t, err)
	return text
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
