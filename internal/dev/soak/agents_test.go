package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tunctl/internal/client"
	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/home"
	"tunctl/internal/lab"
)

func TestMain(m *testing.M) {
	os.Exit(testprogram.Run(os.Getenv("TUNCTL_SOAK") != "", m.Run))
}

const (
	pages    = 4
	mostLine = 2 << 10 // bytes: in ten minutes less than is kept inside a job
	v1       = "v1.kernel.websocket.jupyter.org"
	cell     = "c" // the id of each request

	mostAgain = 256 << 10 / 150 // lines: what is given to a page at once, in messages of 150 bytes at least
)

// TestKilledAgents has pages whose cells print all the time, and kills agents: no line is missing or comes twice,
// and the kernels' WebSockets stay open. An agent that is killed between giving lines to a page and noting it is
// the one whose last lines come twice.
func TestKilledAgents(t *testing.T) {
	if testprogram.Path() == "" {
		t.Skip("needs the program, with TUNCTL_SOAK=10m or in make test")
	}
	testprogram.Need(t, "python3")
	cluster, err := lab.Start(lab.Options{Dir: t.TempDir(), QueueFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	kernels := startKernels(t)
	p := startProgram(t, cluster, kernels.URL)
	base := p.page()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reading sync.WaitGroup
	var tabs []*page
	for i := range pages {
		tab := &page{t: t, base: base, number: i, killed: &p.killed}
		tab.connect(ctx)
		if err := send(ctx, tab.conn, "execute_request", map[string]string{"code": "train()"}); err != nil {
			t.Fatal(err)
		}
		tabs = append(tabs, tab)
		reading.Go(func() { tab.read(ctx) })
	}
	for range pages {
		<-kernels.asked
	}
	faults := p.breakAgents(span(t))
	kernels.finish()
	time.AfterFunc(patience, cancel)
	reading.Wait()
	lines, connections, again := 0, 0, 0
	for _, tab := range tabs {
		lines, connections, again = lines+tab.next, connections+tab.connections, again+tab.again
	}
	t.Logf("%v: %s; %d pages connected %d times; %d lines, %d wrong; %d times the last lines of a killed agent came twice; of the kernels' WebSockets %d were cut",
		span(t), faults, pages, connections, lines, kernels.wrong(lines), again, kernels.cut.Load())
	if kernels.cut.Load() > 0 || kernels.wrong(lines) > 0 || connections == pages {
		t.Error("the pages should have lost connections, and nothing else")
	}
	if t.Failed() {
		log, _ := os.ReadFile(filepath.Join(p.home, "state", "agent.log"))
		t.Logf("%s", log)
	}
}

// kernels is a notebook server whose cells print lines until they are told to finish.
type kernels struct {
	*httptest.Server
	t       *testing.T
	asked   chan struct{}
	over    chan struct{}
	finish  func()
	cut     atomic.Int64 // WebSockets that ended before
	printed atomic.Int64 // lines
	serving sync.WaitGroup
}

const token = "0123456789abcdef0123456789abcdef"

func startKernels(t *testing.T) *kernels {
	k := &kernels{t: t, asked: make(chan struct{}, pages), over: make(chan struct{})}
	k.finish = sync.OnceFunc(func() { close(k.over) })
	mux := http.NewServeMux()
	answer := func(pattern, text string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("token") != token && !strings.Contains(r.Header.Get("Authorization"), token) && pattern != "GET /api" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, strings.ReplaceAll(text, "ID", r.PathValue("id")))
		})
	}
	answer("GET /api", `{"version": "2.0.0"}`)
	answer("GET /api/status", `{"started": "2026-01-01T00:00:00Z", "last_activity": "2026-01-01T00:00:00Z", "connections": 1, "kernels": 4}`)
	answer("GET /api/sessions", `[]`)
	answer("GET /api/kernels/{id}", `{"id": "ID"}`)
	answer("GET /lab", `{}`)
	mux.HandleFunc("GET /api/kernels/{id}/channels", k.channels)
	k.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		k.finish()
		k.CloseClientConnections()
		k.Close()
		k.serving.Wait()
	})
	return k
}

// channels is one kernel's WebSocket.
func (k *kernels) channels(w http.ResponseWriter, r *http.Request) {
	k.serving.Add(1)
	defer k.serving.Done()
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{v1}})
	if err != nil {
		k.t.Error(err)
		return
	}
	defer func() { _ = c.CloseNow() }()
	ctx := context.WithoutCancel(r.Context())
	if _, _, err := c.Read(ctx); err != nil {
		k.t.Error("no request came:", err)
		return
	}
	ctx = c.CloseRead(ctx)
	k.asked <- struct{}{}
	dice := rand.New(rand.NewPCG(1, uint64(len(r.PathValue("id")))))
	for n := 0; ; n++ {
		select {
		case <-k.over:
			if err := send(ctx, c, "status", map[string]string{"execution_state": "idle"}); err != nil {
				k.cut.Add(1)
			}
			<-ctx.Done() // the page leaves
			return
		case <-time.After(time.Duration(dice.IntN(8)) * time.Millisecond):
		}
		text := fmt.Sprintf("%d %s\n", n, strings.Repeat("x", dice.IntN(2)*dice.IntN(mostLine)))
		if err := send(ctx, c, "stream", map[string]string{"name": "stdout", "text": text}); err != nil {
			k.cut.Add(1)
			return
		}
		k.printed.Add(1)
	}
}

// wrong is how many lines are missing, or came twice.
func (k *kernels) wrong(received int) int64 {
	return max(int64(received)-k.printed.Load(), k.printed.Load()-int64(received))
}

// send sends a message of Jupyter's in the form of the connection.
func send(ctx context.Context, c *websocket.Conn, kind string, content any) error {
	id, parent := "m", cell
	if kind == "execute_request" {
		id, parent = cell, ""
	}
	parts := [][]byte{[]byte("iopub")}
	for _, x := range []any{
		map[string]string{"msg_id": id, "msg_type": kind}, map[string]string{"msg_id": parent, "msg_type": "execute_request"}, struct{}{}, content,
	} {
		text, err := json.Marshal(x)
		if err != nil {
			return err
		}
		parts = append(parts, text)
	}
	if c.Subprotocol() != v1 {
		return c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"channel": %q, "header": %s, "parent_header": %s, "metadata": %s, "content": %s}`,
			parts[0], parts[1], parts[2], parts[3], parts[4]))
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(parts)+1))
	at := uint64(8 * (len(parts) + 2))
	for _, part := range append(parts, nil) {
		b = binary.LittleEndian.AppendUint64(b, at)
		at += uint64(len(part))
	}
	return c.Write(ctx, websocket.MessageBinary, append(b, bytes.Join(parts, nil)...))
}

// page is a tab that connects again as JupyterLab does.
type page struct {
	t           *testing.T
	base        *url.URL
	number      int
	conn        *websocket.Conn
	connections int
	next        int           // the line that comes next
	killed      *atomic.Int64 // agents
	known       int64         // how many of them, when it connected last
	mayRepeat   bool          // the agent before was killed, and no line came since
	again       int           // how often lines came twice after that
}

func (p *page) connect(ctx context.Context) bool {
	u := p.base.JoinPath("api/kernels", fmt.Sprintf("kernel%d", p.number), "channels")
	u.Scheme, u.RawQuery = "ws", fmt.Sprintf("token=%s&session_id=tab%d", token, p.number)
	o := &websocket.DialOptions{}
	if p.number%2 > 0 {
		o.Subprotocols = []string{v1}
	}
	for {
		conn, _, err := websocket.Dial(ctx, u.String(), o) //nolint:bodyclose // the library closes it
		if err == nil {
			conn.SetReadLimit(-1)
			killed := p.killed.Load()
			p.conn, p.mayRepeat, p.known = conn, killed > p.known, killed
			p.connections++
			return true
		}
		if ctxtime.Sleep(ctx, 100*time.Millisecond) != nil {
			p.t.Errorf("page %d cannot connect: %v", p.number, err)
			return false
		}
	}
}

// read reads lines until the cell has ended.
func (p *page) read(ctx context.Context) {
	for {
		_, b, err := p.conn.Read(ctx)
		switch {
		case err != nil:
			_ = p.conn.CloseNow()
			if !p.connect(ctx) {
				return
			}
		case bytes.Contains(b, []byte("execution_state")):
			_ = p.conn.Close(websocket.StatusNormalClosure, "")
			return
		default:
			_, text, _ := bytes.Cut(b, []byte(`"text":"`))
			n := -1
			_, _ = fmt.Sscan(string(text), &n)
			if p.mayRepeat && n >= max(0, p.next-mostAgain) && n < p.next {
				p.next = n
				p.again++
			}
			p.mayRepeat = false
			if n != p.next {
				p.t.Errorf("%s: page %d got line %d, not %d", time.Now().Format(time.TimeOnly), p.number, n, p.next)
				return
			}
			p.next++
		}
	}
}

// program is tunctl with a session whose job has the kernels.
type program struct {
	t       *testing.T
	cluster *lab.Cluster
	home    string
	env     []string
	dice    *rand.Rand
	killed  atomic.Int64 // agents
}

func startProgram(t *testing.T, cluster *lab.Cluster, server string) *program {
	p := &program{t: t, cluster: cluster, home: filepath.Join(t.TempDir(), "h"), dice: rand.New(rand.NewPCG(5, 5))}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	job := fmt.Sprintf(`#!/bin/bash
#SBATCH --job-name=soak --output=soak.%%j.log --time=1:00:00
echo "[I ServerApp] Jupyter Server is running at:"
echo "[I ServerApp] http://$HOSTNAME:%[1]s/lab?token=%[2]s"
echo "[I ServerApp]  or http://127.0.0.1:%[1]s/lab?token=%[2]s"
sleep 3600
`, port, token)
	for name, text := range map[string]string{
		filepath.Join(cluster.Home(), "soak.sh"): job,
		filepath.Join(p.home, "config.toml"):     fmt.Sprintf("[session.soak]\nhost = %q\nsubmit = \"~/soak.sh\"\n", cluster.Alias()),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(os.Environ(), "TUNCTL_HOME="+p.home, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG="+cluster.SSHConfig(),
		"SSH_AUTH_SOCK=", "DISPLAY=", "BROWSER=")
	t.Cleanup(func() { p.run("agent", "stop") })
	p.run("up", "--no-open")
	return p
}

func (p *program) run(args ...string) string {
	cmd := exec.Command(testprogram.Path(), args...)
	cmd.Env = p.env
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(p.home, "state", "agent.log"))
		p.t.Fatalf("tunctl %s: %v\n%s\n%s", strings.Join(args, " "), err, talk.String(), log)
	}
	return strings.TrimSpace(string(out))
}

// page is the address of the session's page.
func (p *program) page() *url.URL {
	u, err := url.Parse(p.run("open", "--print", "soak"))
	if err != nil {
		p.t.Fatal(err)
	}
	u.RawQuery, u.Path = "", "/"
	return u
}

// breakAgents does something to the agent, or to its connection, every few seconds, and says how often.
func (p *program) breakAgents(length time.Duration) string {
	kinds := []string{"agents killed", "agents restarted", "connections dropped", "connections silent", "times refused"}
	counts := make([]int, len(kinds))
	for began := time.Now(); counts[0] == 0 || time.Since(began) < length; {
		_ = ctxtime.Sleep(p.t.Context(), time.Duration(300+p.dice.IntN(5000))*time.Millisecond)
		kind := p.dice.IntN(len(kinds))
		if counts[0] == 0 {
			kind = 0
		}
		counts[kind]++
		p.t.Logf("%s: %s", time.Now().Format(time.TimeOnly), kinds[kind])
		switch kind {
		case 0:
			p.kill()
			_ = ctxtime.Sleep(p.t.Context(), time.Duration(p.dice.IntN(2000))*time.Millisecond)
			p.run("up", "--no-open")
		case 1:
			p.run("agent", "restart")
		case 2:
			p.cluster.DropAll()
		case 3:
			p.cluster.Pause()
			_ = ctxtime.Sleep(p.t.Context(), time.Duration(p.dice.IntN(5000))*time.Millisecond)
			p.cluster.Resume()
		case 4:
			if err := p.cluster.Refuse(true); err != nil {
				p.t.Error(err)
			}
			p.cluster.DropAll()
			_ = ctxtime.Sleep(p.t.Context(), time.Second)
			if err := p.cluster.Refuse(false); err != nil {
				p.t.Error(err)
			}
		}
	}
	var said []string
	for i, n := range counts {
		said = append(said, fmt.Sprintf("%d %s", n, kinds[i]))
	}
	return strings.Join(said, ", ")
}

// kill ends the agent without a chance to do anything.
func (p *program) kill() {
	st, err := client.New(home.In(p.home)).Status(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	agent, err := os.FindProcess(st.Agent.PID)
	if err == nil {
		err = agent.Kill()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.killed.Add(1) // before there is another one that a page can connect to
}
