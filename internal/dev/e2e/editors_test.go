package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
)

// editorServer stands in for the servers of Zed and of JetBrains. Zed's is `version`, and `proxy`, which connects its
// standard input and output to a server that outlives it, and with --reconnect starts none. JetBrains' is `run`, which
// listens on the loopback and says where. Each numbers the lines that it sends back.
const editorServer = `#!/usr/bin/env python3
import os, socket, sys, threading
lock, count = threading.Lock(), 0
def serve(c):
    global count
    for line in c.makefile("rb"):
        with lock:
            count += 1
            c.sendall(b"%d %s" % (count, line))
def accept(l):
    while True:
        threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
if sys.argv[1] == "version":
    print("1.0.0")
elif sys.argv[1] == "run":
    l = socket.create_server(("127.0.0.1", 0))
    print("Join link: tcp://127.0.0.1:%d#jt=a&p=%s" % (l.getsockname()[1], os.path.abspath(sys.argv[2])), flush=True)
    accept(l)
else:
    where = sys.argv[0] + "." + sys.argv[3]
    def connect():
        s = socket.socket(socket.AF_UNIX)
        s.connect(where)
        return s
    try:
        s = connect()
    except OSError:
        if "--reconnect" in sys.argv:
            sys.exit(90)
        l = socket.socket(socket.AF_UNIX)
        l.bind(where)
        l.listen()
        if os.fork() == 0:
            os.setsid()
            for fd in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), fd)
            accept(l)
        s = connect()
    def back():
        while b := s.recv(65536):
            os.write(1, b)
        os._exit(0)
    threading.Thread(target=back, daemon=True).start()
    while b := os.read(0, 65536):
        s.sendall(b)
`

// newEditing is a laptop with a session whose job runs on a node without sshd.
func newEditing(t *testing.T) *guest {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	g := newGuest(t, servingConfig)
	g.lab.StopSSHD("cn01")
	g.lab.WaitJob(g.lab.Submit(servingJob), "RUNNING")
	g.run("up", "jupyter", "--no-open")
	t.Cleanup(func() { // a lab may be used again
		if out, err := g.lab.As("hpcuser", "sh", "-c", "cd; rm -rf .zed_server .cache/JetBrains"); err != nil {
			t.Error(err, out)
		}
	})
	return g
}

// cut breaks the network until the agent has noticed, and what do does then is done.
func (g *guest) cut(do func()) {
	g.t.Helper()
	g.lab.Cut("silent")
	g.until("reconnecting", is(api.SessionReconnecting))
	do()
	g.lab.Restore("silent")
	g.until("ready", is(api.SessionReady))
}

// talk is a conversation with an editor's server.
type talk struct {
	t    *testing.T
	out  io.Writer
	in   *bufio.Reader
	said int
}

func (c *talk) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.out, text+"\n"); err != nil {
		c.t.Error(err)
	}
	c.said++
}

// hear checks that the last line that was sent came back, and that the server has seen each line once.
func (c *talk) hear(text string) {
	c.t.Helper()
	lines := make(chan string, 1)
	go func() {
		line, err := c.in.ReadString('\n')
		if err != nil {
			line = err.Error()
		}
		lines <- line
	}()
	want := fmt.Sprintf("%d %s\n", c.said, text)
	if got := wait.For(c.t, "the editor's server answers "+text, lines); got != want {
		c.t.Fatalf("the editor's server says %q, not %q", got, want)
	}
}

// zed is Zed's side of a connection: one ssh that does nothing but share the connection, and others over it. The
// command lines are those of Zed's crates/remote/src/transport/ssh.rs.
type zed struct {
	*guest
	host, server  string
	socket        string
	master, proxy *exec.Cmd
	*talk
}

func (z *zed) options() []string {
	return []string{"-F", z.sshConfig, "-o", "ControlMaster=no", "-o", "ControlPath=" + z.socket}
}

// command is a command of Zed's on the host.
func (z *zed) command(args ...string) *exec.Cmd {
	return z.program("ssh", append(append(z.options(), z.host), args...)...)
}

func (z *zed) connect() {
	z.t.Helper()
	z.socket = filepath.Join(returned(os.MkdirTemp(z.dir, "zed-ssh-session"))(z.t), "ssh.sock")
	z.master = z.program("ssh", "-F", z.sshConfig, "-N", "-o", "ControlPersist=no", "-o", "ControlMaster=yes",
		"-o", "ControlPath="+z.socket, z.host)
	must.Do(z.t, z.master.Start())
	wait.Until(z.t, "Zed is connected", func() bool { _, err := os.Stat(z.socket); return err == nil })
}

// startProxy starts the process that all messages of Zed go through.
func (z *zed) startProxy(more ...string) {
	z.t.Helper()
	z.proxy = z.command("-T", "cd; env "+strings.Join(append([]string{z.server, "proxy", "--identifier", "workspace-1"}, more...), " "))
	in, err := z.proxy.StdinPipe()
	must.Do(z.t, err)
	out, err := z.proxy.StdoutPipe()
	must.Do(z.t, err)
	must.Do(z.t, z.proxy.Start())
	z.out, z.in = in, bufio.NewReader(out)
}

// kill ends Zed's processes as it does when heartbeats are missing.
func (z *zed) kill() {
	for _, cmd := range []*exec.Cmd{z.proxy, z.master} {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestZed does with ssh what Zed does to work on a host: it looks at it, copies its server there and starts it. A message
// that is sent while the network is cut is answered after it; and Zed, which by then may have started anew, finds the same
// server.
func TestZed(t *testing.T) {
	g := newEditing(t)
	z := &zed{guest: g, host: "jupyter.tun", server: ".zed_server/zed-remote-server-stable-1.0.0", talk: &talk{t: t}}
	z.connect()
	run := func(args ...string) string { return g.exec("ssh", append(append(z.options(), z.host), args...)...) }
	if z.command("-T", "cd; cmd /c ver").Run() == nil {
		t.Error("the node passes for Windows")
	}
	if out := run("-T", "cd; sh -c 'echo $SHELL'"); out != "/bin/bash\n" {
		t.Errorf("the shell is %q", out)
	}
	if out := run("-T", "cd; uname -sm"); !strings.HasPrefix(out, "Linux ") {
		t.Errorf("the system is %q", out)
	}
	if z.command("cd; "+z.server+" version").Run() == nil {
		t.Error("there is a server already")
	}
	run("cd; mkdir -p .zed_server")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, editorServer)
	must.Do(t, err)
	must.Do(t, w.Close())
	must.Do(t, os.WriteFile(filepath.Join(g.dir, "server.gz"), packed.Bytes(), 0o600))
	download := z.server + "-download-4711"
	put := g.program("sftp", append(z.options(), "-b", "-", z.host)...)
	put.Stdin = strings.NewReader("put server.gz " + download + ".gz\n")
	if out, err := put.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run(fmt.Sprintf("cd; sh -c 'gunzip -f %s.gz && chmod 755 %[1]s && mv %[1]s %s'", download, z.server))
	if out := run("cd; " + z.server + " version"); out != "1.0.0\n" {
		t.Errorf("the server is %q", out)
	}

	z.startProxy()
	z.send("ping")
	z.hear("ping")
	g.cut(func() { z.send("sent while away") })
	z.hear("sent while away")
	if out := run("-T", "hostname"); out != "cn01\n" {
		t.Errorf("a terminal of Zed is on %q", out)
	}

	g.cut(z.kill)
	z.connect()
	z.startProxy("--reconnect")
	z.send("back")
	z.hear("back")
	z.kill()
}

// TestGateway does what JetBrains Gateway does, which has an SSH client of its own and takes the ProxyCommand from the
// config: it looks at the host, copies its server by sftp, starts it in a session that stays open, and connects to the
// address in the link that the server prints. All that continues after the network was cut.
func TestGateway(t *testing.T) {
	g := newEditing(t)
	const host = "jupyter.tun"
	_, command, ok := strings.Cut(g.ssh("-G", host), "\nproxycommand ")
	command, _, _ = strings.Cut(command, "\n")
	if !ok {
		t.Fatal("the config has no ProxyCommand")
	}
	near, far := net.Pipe()
	proxy := g.program("sh", "-c", "exec "+strings.ReplaceAll(command, "%h", host))
	proxy.Stdin, proxy.Stdout, proxy.Stderr = far, far, os.Stderr
	must.Do(t, proxy.Start())
	conn, channels, requests, err := ssh.NewClientConn(near, host, &ssh.ClientConfig{User: "hpcuser", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	must.Do(t, err)
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() {
		_ = client.Close()
		_ = near.Close()
		_ = proxy.Wait()
	})

	s := returned(client.NewSession())(t)
	if out, err := s.Output("uname -sm"); err != nil || !strings.HasPrefix(string(out), "Linux ") {
		t.Errorf("the system is %q: %v", out, err)
	}
	const dist = ".cache/JetBrains/RemoteDev/dist/ide/bin"
	files := returned(sftp.NewClient(client))(t)
	must.Do(t, files.MkdirAll(dist))
	f := returned(files.Create(dist + "/remote-dev-server.sh"))(t)
	_, err = f.Write([]byte(editorServer))
	must.Do(t, err)
	must.Do(t, f.Chmod(0o755))
	must.Do(t, f.Close())

	server := returned(client.NewSession())(t)
	out := bufio.NewReader(returned(server.StdoutPipe())(t))
	must.Do(t, server.Start(dist+"/remote-dev-server.sh run . --ssh-link-host "+host))
	link := returned(out.ReadString('\n'))(t)
	address, _, ok := strings.Cut(strings.TrimPrefix(link, "Join link: tcp://"), "#jt=")
	if !ok {
		t.Fatalf("the server says %q", link)
	}
	ide := returned(client.Dial("tcp", address))(t)
	c := &talk{t: t, out: ide, in: bufio.NewReader(ide)}
	c.send("ping")
	c.hear("ping")
	g.cut(func() { c.send("sent while away") })
	c.hear("sent while away")

	second := returned(client.Dial("tcp", address))(t)
	c = &talk{t: t, out: second, in: bufio.NewReader(second), said: c.said}
	c.send("a second connection")
	c.hear("a second connection")
	names := returned(files.ReadDir(dist))(t)
	if len(names) != 1 {
		t.Errorf("sftp lists %v after it", names)
	}
	must.Do(t, server.Signal(ssh.SIGTERM))
}

// returned is what a call returns; an error ends the test.
func returned[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must.Do(t, err)
		return v
	}
}
