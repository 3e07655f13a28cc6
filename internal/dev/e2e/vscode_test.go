package e2e

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/proxy"

	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testport"
)

// remoteScript does what the script of VS Code's Remote-SSH does: it starts the editor's
// server, which outlives the connection, unless it runs already, and prints where it is. The
// server here echoes; it listens on the host's loopback and on a socket in the home folder.
const remoteScript = `
set -e
echo "$TRIGGER: running on $(hostname), GPU $CUDA_VISIBLE_DEVICES"
dir=~/.vscode-stand-in-$(hostname); mkdir -p $dir
if ! kill -0 "$(cat $dir/pid 2>/dev/null)" 2>/dev/null; then
rm -f $dir/*
nohup perl -e '
use IO::Socket::INET; use IO::Socket::UNIX; use IO::Select; $SIG{CHLD} = "IGNORE";
my $tcp = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 64) or die;
my $unix = IO::Socket::UNIX->new(Local => "$ARGV[0]/sock", Listen => 64) or die;
open my $f, ">", "$ARGV[0]/new"; print $f $tcp->sockport, "\n"; close $f; rename "$ARGV[0]/new", "$ARGV[0]/port";
my $all = IO::Select->new($tcp, $unix);
while (my @ready = $all->can_read) { for my $l (@ready) {
  my $c = $l->accept or next;
  if (fork) { close $c; next }
  while (sysread($c, my $b, 65536)) { my $o = 0; $o += syswrite($c, $b, length($b) - $o, $o) while $o < length $b }
  exit 0;
} }' $dir >$dir/log 2>&1 </dev/null &
echo $! >$dir/pid
until test -e $dir/port; do sleep 0.1; done
fi
echo "server==$(cat $dir/pid)"
echo "listeningOn==$(cat $dir/port)"
`

// editor is an ssh as VS Code's Remote-SSH runs it: a script for bash on standard input, and on the
// same connection a SOCKS port and a forward to the server that the script started.
type editor struct {
	t             *testing.T
	cmd           *exec.Cmd
	in            io.Closer
	talk          *bytes.Buffer
	socks, socket string // addresses
	greeting      string // the script's first line
	server, port  string // the server's process, and where it listens
}

// edit connects an editor to a host that stock ssh knows. Its server listens at a socket in
// the home folder, which names the node.
func (g *guest) edit(host, node string) *editor {
	t := g.t
	t.Helper()
	e := &editor{t: t, talk: &bytes.Buffer{}, socks: freeAddress(t), socket: freeAddress(t)}
	e.cmd = g.program("ssh", "-T", "-D", e.socks, "-L", e.socket+":/home/hpcuser/.vscode-stand-in-"+node+"/sock", "-F", g.sshConfig,
		"-o", "ConnectTimeout=15", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=5", host, "bash")
	e.cmd.Stderr = e.talk
	in, err := e.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.in = in
	if _, err := io.WriteString(in, "TRIGGER=a1b2c3\n"+remoteScript); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); e.port == "" && lines.Scan(); {
		said = append(said, lines.Text())
		if text, ok := strings.CutPrefix(lines.Text(), "a1b2c3: "); ok {
			e.greeting = text
		}
		if pid, ok := strings.CutPrefix(lines.Text(), "server=="); ok {
			e.server = pid
		}
		_, e.port, _ = strings.Cut(lines.Text(), "listeningOn==")
	}
	if e.port == "" || e.server == "" || e.greeting == "" {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		t.Fatalf("the script said %q\n%s", said, e.talk)
	}
	return e
}

// dials are an editor's 24 connections at once, by port and by socket.
func (e *editor) dials() []func() (net.Conn, error) {
	e.t.Helper()
	dialer, err := proxy.SOCKS5("tcp", e.socks, nil, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	all := make([]func() (net.Conn, error), 24)
	for i := range all {
		all[i] = func() (net.Conn, error) { return dialer.Dial("tcp", "127.0.0.1:"+e.port) }
		if i%3 == 0 {
			all[i] = func() (net.Conn, error) { return net.Dial("tcp", e.socket) }
		}
	}
	return all
}

// work checks that what the editor's connections send comes back, on all of them at once.
func (e *editor) work() {
	e.t.Helper()
	var wg sync.WaitGroup
	for _, dial := range e.dials() {
		wg.Go(func() { comesBack(e.t, dial) })
	}
	wg.Wait()
}

// kill ends ssh by SIGKILL while all connections are busy.
func (e *editor) kill() {
	e.t.Helper()
	var wg sync.WaitGroup
	for _, dial := range e.dials() {
		conn, err := dial()
		if err != nil {
			e.t.Error(err)
			continue
		}
		defer func() { _ = conn.Close() }()
		wg.Go(func() { // until the connection is lost
			for err := error(nil); err == nil; _, err = conn.Write(make([]byte, 64<<10)) {
			}
		})
		if _, err := io.ReadFull(conn, make([]byte, 64<<10)); err != nil {
			e.t.Error(err)
		}
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	wg.Wait()
}

// close ends ssh as closing the editor's window does.
func (e *editor) close() {
	e.t.Helper()
	_ = e.in.Close()
	if err := e.cmd.Wait(); err != nil {
		e.t.Errorf("%v\n%s", err, e.talk)
	}
}

func TestWhatVSCodeDoesWithSSHWorksThroughTheGateway(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	g := newGuest(t, "[host.lab-login]\n")
	g.run("login", "lab-login")
	const host = "lab-login.tun"

	first := g.edit(host, "login1")
	first.work()
	first.close()
	again := g.edit(host, "login1")
	if again.server != first.server {
		t.Errorf("the editor's server is process %s, and was %s", again.server, first.server)
	}
	again.close()
	g.ssh(host, "kill", first.server)
}

const workConfig = `
[session.work]
host   = "lab-login"
job    = "work"
submit = "~/work.sh"
local  = PORT
`

// workJob has a GPU, and serves a page on the loopback of a node.
const workJob = `#!/bin/bash
#SBATCH --job-name=work --output=work.%j.log --time=30:00 --nodelist=cn02 --gres=gpu:1
exec python3 -u -c '
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
print("[I ServerApp] http://127.0.0.1:%d/lab?token=4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f" % server.server_port)
server.serve_forever()
'
`

// killAgent ends the agent as a crash does.
func (l *laptop) killAgent() {
	l.t.Helper()
	agent, err := os.FindProcess(l.agentPID())
	if err == nil {
		err = agent.Kill()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// steps are those of all jobs, besides their scripts.
func (l *laptop) steps() []string {
	l.t.Helper()
	out, err := l.lab.As("hpcuser", "squeue", "--steps", "--noheader", "--format=%i")
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(out), func(id string) bool { return strings.HasSuffix(id, ".batch") || strings.HasSuffix(id, ".extern") })
}

// leaves waits until the user's processes on a node are those whose command lines have one of these
// words each.
func (l *laptop) leaves(node string, words ...string) {
	l.t.Helper()
	var left []string
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		left = l.lab.Processes(node)
		if len(left) == len(words) && !slices.ContainsFunc(left, func(line string) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
		}) {
			return
		}
		if time.Now().After(deadline) {
			l.t.Errorf("on %s there are %q, and should be only %q", node, left, words)
			return
		}
	}
}

// TestAnEditorThatIsKilledLeavesOnlyItsServerAndOnlyInTheJob has an editor work in a job whose node has
// no sshd, and ends what is between them without a warning: ssh, and the agent. The editor does not notice
// that the connection to the login node was lost.
func TestAnEditorThatIsKilledLeavesOnlyItsServerAndOnlyInTheJob(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	// Only by control groups does Slurm know all processes of a step.
	g := newGuestAt(t, real.StartWith(t, real.Options{Adopt: true}), workConfig)
	g.lab.StopSSHD("cn02")
	if out, err := g.lab.As("hpcuser", "sh", "-c", `printf %s "$1" >~/work.sh`, "sh", workJob); err != nil {
		t.Fatal(err, out)
	}
	g.run("up", "work", "--no-open")
	const host, node = "work.tun", "cn02"

	first := g.edit(host, node)
	if want := "running on cn02, GPU 0"; first.greeting != want {
		t.Errorf("the editor's script is %q, not %q", first.greeting, want)
	}
	first.work()
	if steps := g.steps(); len(steps) != 1 {
		t.Errorf("an editor with 24 connections needs the steps %q", steps)
	}
	last := first
	reconnects := func(after string) {
		t.Helper()
		last = g.edit(host, node)
		if last.server != first.server {
			t.Errorf("after %s was killed, the editor's server is process %s, and was %s", after, last.server, first.server)
		}
		last.work()
	}

	first.kill()
	reconnects("ssh")
	g.lab.KillConns("lab-login")
	last.work() // over the same ssh
	g.killAgent()
	_ = last.cmd.Wait()
	g.leaves("login1")

	g.run("up", "work", "--no-open")                                                 // its agent ends what the last one held
	g.leaves(node, "http.server", "tunctl-relay", "vscode-stand-in", "tunctl-relay") // the last one's waits for the server
	reconnects("the agent")
	g.run("down", "work", "--cancel")
	_ = last.cmd.Wait()
	g.leaves(node)
	g.run("agent", "stop")
	g.leaves("login1")
}

// freeAddress is an address of loopback that nobody listens at, and that nobody else is given.
func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testport.Free(t)))
}

// comesBack checks that what is sent comes back.
func comesBack(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	sent := make([]byte, 256<<10)
	_, _ = rand.Read(sent)
	go func() { _, _ = conn.Write(sent) }() // what is wrong with it shows at the other end
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("other bytes came back: %v", err)
	}
}
