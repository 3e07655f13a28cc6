package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/steptest"
	"tunctl/tunnel"
)

// simHost is a login node with Slurm in the test's process, without a network and without
// programs, so that a simulated clock moves on. It counts what is done to it.
type simHost struct {
	*sshtest.Server
	name  string
	since time.Time

	mu      sync.Mutex
	jobs    *modelCluster // whose notebooks serve from their start on
	logins  []time.Time
	uses    map[simUse]int
	unknown []string // scripts that it cannot run

	programs   int  // that run inside jobs now
	readings   int  // how often a job was measured
	noSteps    bool // srun is refused
	counted    bool // sstat tells that each job used one of its four CPUs
	computes   bool // each job uses one of its four CPUs
	busyKernel bool
	lastUse    time.Time // of each notebook

	scheduler func(script string) (out, errOut string, exit int) // answers in place of the host; may be nil
}

// simUse is a kind of use of a host in an hour: logins, dials, queries, commands or
// bytes.
type simUse struct {
	what string
	hour int
}

// hour is the hour since the simulation began.
func (h *simHost) hour() int { return int(time.Since(h.since).Hours()) }

// newSimHost accepts a key and, where code is set, asks for it afterwards.
func newSimHost(t *testing.T, name string, key ssh.PublicKey, code string) *simHost {
	t.Helper()
	login := sshtest.AcceptKey(key)
	if code != "" {
		login = sshtest.AcceptKeyThen(key, func(ask ssh.KeyboardInteractiveChallenge) error {
			answers, err := ask("", "", []string{"Verification code: "}, []bool{false})
			if err == nil && answers[0] != code {
				err = errors.New("wrong code")
			}
			return err
		})
	}
	h := &simHost{Server: sshtest.NewServer(t, login), name: name, since: time.Now(), uses: map[simUse]int{}, jobs: &modelCluster{}}
	h.Used, h.Exec = h.count, h.exec
	h.Forward = func(ch ssh.Channel) { h.serveNotebook(ch) }
	return h
}

// count records a use.
func (h *simHost) count(what string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses[simUse{what, h.hour()}] += n
	if what == "logins" {
		h.logins = append(h.logins, time.Now())
	}
}

var errNoNetwork = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}

// unreachable makes dials fail with err and existing connections fall silent; nil makes
// new dials succeed. What was silent stays so: the laptop's address is another one.
func (h *simHost) unreachable(err error) {
	h.Set(func(s *sshtest.Server) { s.Refuse = err })
	h.Stall()
}

// restart closes all connections and refuses new ones, as a server that is restarted.
func (h *simHost) restart() {
	h.Set(func(s *sshtest.Server) { s.Refuse = syscall.ECONNREFUSED })
	h.Drop()
}

// serveNotebook is the notebook on a compute node.
func (h *simHost) serveNotebook(client io.ReadWriter) {
	for in := bufio.NewReader(client); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body := h.notebook(req.URL.Path)
		_, _ = fmt.Fprintf(client, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if req.Close {
			return
		}
	}
}

// notebook is what the API of the notebooks answers.
func (h *simHost) notebook(path string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case path == "/api/kernels" && h.busyKernel:
		return `[{"execution_state":"busy"}]`
	case path == "/api/kernels":
		return `[{"execution_state":"idle"}]`
	case path == "/api/status" && !h.lastUse.IsZero():
		return fmt.Sprintf(`{"kernels":1,"connections":0,"last_activity":%q}`, h.lastUse.UTC().Format(time.RFC3339Nano))
	}
	return "{}"
}

// step is what srun runs: a relay.
func (h *simHost) step(ch ssh.Channel, in *bufio.Reader) (status int) {
	h.count("steps", 1)
	h.mu.Lock()
	refused := h.noSteps
	h.mu.Unlock()
	if refused {
		_, _ = io.WriteString(ch.Stderr(), "srun: error: Unable to create step for job: Access/permission denied\n")
		return 1
	}
	steptest.Serve(in, ch, h.program)
	return 0
}

// program runs inside a job: it measures. Others end at once. A connection there leads to
// the notebook.
func (h *simHost) program(r steptest.Request, data io.ReadWriter) (exit uint32) {
	if r.Kind == "tcp" {
		h.serveNotebook(data)
		return 0
	}
	if !strings.Contains(string(r.Command), "tunctl-usage") {
		return 127
	}
	h.running(1)
	defer h.running(-1)
	in := bufio.NewReader(data)
	first, _ := in.ReadString('\n')
	var size int64
	_, _ = fmt.Sscanf(first, `eval "$(head -c %d)"`, &size)
	_, _ = io.CopyN(io.Discard, in, size)
	for {
		if _, err := in.ReadString('\n'); err != nil {
			return 0
		}
		h.mu.Lock()
		if h.noSteps {
			h.mu.Unlock()
			return 1
		}
		h.readings++
		used := time.Duration(0)
		if h.computes {
			used = time.Since(h.since)
		}
		h.mu.Unlock()
		_, _ = fmt.Fprintf(data, "clock %f\ncpu %d\nmem 1000000\nlimit 4000000\ncpus 0-3\nnvidia NVIDIA A100, 0, 1, 40960\nnvidia NVIDIA A100, 0, 1, 40960\n.\n",
			time.Since(h.since).Seconds()+1, used.Microseconds())
	}
}

func (h *simHost) running(programs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.programs += programs
}

// exec runs one command.
func (h *simHost) exec(command string, ch ssh.Channel) (status int) {
	h.count("commands", 1)
	switch {
	case command == "hostname":
		_, _ = io.WriteString(ch, h.name+"\n")
		return 0
	case strings.Contains(command, "ssh-keygen -F"): // the nodes have no sshd
		return 0
	}
	in := bufio.NewReader(ch)
	first, _ := in.ReadString('\n')
	if strings.Contains(first, "srun ") {
		return h.step(ch, in)
	}
	rest, _ := io.ReadAll(in)
	out, errOut := h.run(first + string(rest))
	_, _ = io.WriteString(ch.Stderr(), errOut)
	_, _ = io.WriteString(ch, out)
	return 0
}

var (
	simMark = regexp.MustCompile(`(tunctl-\w+)\.begin`)
	simRead = regexp.MustCompile(`(?m)^set -- (\S+)\ntunctl_read (tunctl-\w+)\.(\d+) \S+ (\d+) (\d+) (\d+) \d+ "\$@"$`)
	simEnds = regexp.MustCompile(`printf '\\n%s end\\n' (tunctl-\w+)`)
)

// run is what a script of jobwatch prints, with its frame.
func (h *simHost) run(script string) (out, errOut string) {
	mark := simMark.FindStringSubmatch(script)
	if mark == nil {
		h.cannot(script)
		return "", ""
	}
	h.mu.Lock()
	scheduler := h.scheduler
	h.mu.Unlock()
	if scheduler != nil {
		out, errOut, exit := scheduler(script)
		if exit < 0 {
			return out, errOut // without the frame
		}
		return fmt.Sprintf("%s.begin\n%s\n%s.end %d\n", mark[1], out, mark[1], exit), errOut
	}
	out, exit := h.answer(script)
	return fmt.Sprintf("%s.begin\n%s\n%s.end %d\n", mark[1], out, mark[1], exit), ""
}

func (h *simHost) sstat() (out string, exit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.counted {
		return "", 1
	}
	used := time.Since(h.since)
	return fmt.Sprintf("cpus|4\n1|%02d:%02d:%02d|1000K\n", int(used.Hours()), int(used.Minutes())%60, int(used.Seconds())%60), 0
}

func (h *simHost) cannot(script string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unknown = append(h.unknown, script)
}

func (h *simHost) answer(script string) (out string, exit int) {
	switch {
	case strings.Contains(script, "has sbatch squeue"):
		return "slurm\nalice\n" + h.name + "\n", 0
	case strings.Contains(script, "limit sstat"):
		h.count("queries", 1)
		return h.sstat()
	case strings.Contains(script, "limit squeue"), strings.Contains(script, "limit scontrol"), strings.Contains(script, "limit sacct"):
		h.count("queries", 1)
		h.jobs.mu.Lock()
		defer h.jobs.mu.Unlock()
		out, _, exit, _ := modelSlurm{}.answer(h.jobs, script)
		return out, exit
	case strings.Contains(script, "getent ahosts"): // the names of a node
		h.count("queries", 1)
		return "", 0
	case strings.Contains(script, "tunctl_read "):
		return h.readFiles(script), 0
	case strings.Contains(script, "grep -E '>|tee '"):
		return "", 0
	}
	h.cannot(script)
	return "", 1
}

// readFiles answers the script that reads logs.
func (h *simHost) readFiles(script string) string {
	var b strings.Builder
	for _, m := range simRead.FindAllStringSubmatch(script, -1) {
		path := strings.Trim(m[1], "'")
		for _, j := range h.jobs.jobs {
			if j.log() != path || j.state(time.Now()) != "RUNNING" {
				continue
			}
			text := fmt.Sprintf("[I ServerApp] Jupyter Server 2.14.0 is running at:\n[I ServerApp] http://cn01:8888/lab?token=%s\n", strings.Repeat("a", 32))
			for at := j.start.Add(time.Minute); at.Before(time.Now()); at = at.Add(10 * time.Minute) {
				text += "[I " + at.Format(time.DateTime) + " ServerApp] Saving file at /work.ipynb\n"
			}
			start, _ := strconv.Atoi(m[4])
			most, _ := strconv.Atoi(m[6])
			if need, _ := strconv.Atoi(m[5]); need > len(text) {
				start = 0
			}
			fmt.Fprintf(&b, "\n%s.%s %d %d %s\n%s", m[2], m[3], start, len(text), path, text[start:min(len(text), start+most)])
		}
	}
	if m := simEnds.FindStringSubmatch(script); m != nil {
		fmt.Fprintf(&b, "\n%s end\n", m[1])
	}
	return b.String()
}

// simNetwork is the network of a laptop that reaches simulated hosts by their names.
func simNetwork(hosts map[string]*simHost) *tunnel.Network {
	servers := map[string]*sshtest.Server{}
	for name, h := range hosts {
		servers[name] = h.Server
	}
	return &tunnel.Network{
		Dial:   sshtest.Dial(servers),
		Lookup: func(context.Context, string) ([]string, error) { return nil, errors.New("no name service") },
		Watch:  func(ctx context.Context, _ func(), _ *slog.Logger) { <-ctx.Done() },
	}
}
