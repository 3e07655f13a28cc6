//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/real"
)

// field is what this bench stands on: a lab, the user's home with tunctl's config, and a session
// whose job runs on a node without sshd.
type field struct {
	lab       *real.Cluster
	dir       string
	sshConfig string // for stock ssh: the lab's, and tunctl's names
	tunctl    string

	narrow *ground.Proxy // the way to lab-narrow

	job, gpu, port string // the session's job, its GPU, and where its server of bulk data listens
}

const config = `
[session.bench]
host   = "lab-login"
job    = "bench"
submit = "~/bench.sh"

[session.narrow]
host   = "lab-narrow"
job    = "narrow"
submit = "~/narrow.sh"
`

// narrowHost is the login node over a link of 100 Mbit/s.
const narrowHost = `Include %s
Host lab-narrow
  HostName 127.0.0.1
  Port %d
  HostKeyAlias %s
`

// host is the session's job for stock ssh.
const host = "bench.tun"

// The session's job is on one node. The other has an sshd and a job that lets the user in
// there.
const (
	node  = "cn02"
	other = "cn01"
)

// The jobs of the sessions: one has a GPU, and a page on the node's loopback; the login node reaches the
// page of the other.
const (
	benchJob  = "#!/bin/bash\n#SBATCH --job-name=bench --output=bench.%j.log --time=1:00:00 --nodelist=" + node + " --gres=gpu:1\nat=127.0.0.1 " + server
	narrowJob = "#!/bin/bash\n#SBATCH --job-name=narrow --output=narrow.%j.log --time=1:00:00 --nodelist=" + node + "\nat=$(hostname) " + server
)

// server serves a page, and bulk data to anyone: d and a size sends that many bytes, l sends them
// some seconds later, u takes them, e echoes. An upgrade of the page is the same.
const server = `exec python3 -u -c '
import http.server, os, socket, struct, threading, time
def exactly(c, n):
    data = b""
    while len(data) < n:
        more = c.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data
def serve(c):
    buf, letter = bytearray(1 << 20), c.recv(1)
    if letter == b"e":
        n = c.recv_into(buf)
        while n:
            c.sendall(memoryview(buf)[:n])
            n = c.recv_into(buf)
    elif letter:
        left = struct.unpack(">Q", exactly(c, 8))[0]
        if letter == b"l":
            time.sleep(3)
        while left > 0:
            if letter != b"u":
                n = min(left, len(buf))
                c.sendall(memoryview(buf)[:n])
            else:
                n = c.recv_into(buf)
                if not n:
                    raise EOFError
            left -= n
        if letter == b"u":
            c.sendall(b".")
    c.close()
def bulk(listener):
    while True:
        c, _ = listener.accept()
        threading.Thread(target=serve, args=(c,), daemon=True).start()
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        size = int(self.path[1:]) if self.path[1:].isdigit() else 0
        self.send_response(101 if "Upgrade" in self.headers else 200)
        if "Upgrade" in self.headers:
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "bench")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if "Upgrade" in self.headers:
            serve(self.connection)
            self.close_connection = True
        elif size:
            self.wfile.write(bytes(size))
    def log_message(self, *args):
        pass
listener = socket.create_server(("", 0), backlog=64)
threading.Thread(target=bulk, args=(listener,), daemon=True).start()
page = http.server.ThreadingHTTPServer((os.environ["at"], 0), Page)
with open("facts." + os.environ["SLURM_JOB_NAME"], "w") as f:
    f.write("%s %s %d" % (os.environ["SLURM_JOB_ID"], os.environ.get("CUDA_VISIBLE_DEVICES"), listener.getsockname()[1]))
print("[I ServerApp] http://%s:%d/lab?token=4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f" % (os.environ["at"], page.server_port))
page.serve_forever()
'
`

// Another job has the first GPU, so that the session's has the second: neither the login node nor
// a plain login on the node says so.
const otherGPU = "#!/bin/sh\n#SBATCH --time=1:00:00 --output=/dev/null --nodelist=" + node + " --gres=gpu:1\nsleep 3600\n"

const plainJob = "#!/bin/sh\n#SBATCH --time=1:00:00 --output=/dev/null --nodelist=" + other + "\nsleep 3600\n"

func newField(ctx context.Context, program string) (*field, error) {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	f := &field{dir: dir, tunctl: program, sshConfig: filepath.Join(dir, "ssh_config")}
	if err := f.start(ctx); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *field) start(ctx context.Context) (err error) {
	if f.lab, err = real.Up(filepath.Base(f.dir), false, real.Options{}); err != nil {
		return err
	}
	if err := f.lab.StopSSHD(node); err != nil {
		return err
	}
	for _, script := range []string{otherGPU, plainJob} {
		if err := f.submit(ctx, script); err != nil {
			return err
		}
	}
	if _, err := f.lab.As("hpcuser", "sh", "-c", `printf %s "$1" >~/bench.sh; printf %s "$2" >~/narrow.sh`, "sh", benchJob, narrowJob); err != nil {
		return err
	}
	login, err := f.lab.NodeAddr("login1")
	if err != nil {
		return err
	}
	if f.narrow, err = ground.NewProxy(net.JoinHostPort(login, "22"), narrowRTT/2, 100e6/8); err != nil {
		return err
	}
	sshConfig := fmt.Sprintf(narrowHost, f.lab.SSHConfig(), f.narrow.Port(), login)
	for name, text := range map[string]string{"config.toml": config, "ssh_config": sshConfig} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"ssh-config", "install"}, {"up", "bench", "--no-open"}} {
		if _, err := f.output(ctx, f.tunctl, args...); err != nil {
			return err
		}
	}
	facts, err := f.lab.As("hpcuser", "cat", "facts.bench")
	if err != nil {
		return err
	}
	_, err = fmt.Sscan(facts, &f.job, &f.gpu, &f.port)
	return err
}

// submit submits a job and waits until it runs.
func (f *field) submit(ctx context.Context, script string) error {
	id, err := f.lab.Submit(script)
	if err != nil {
		return err
	}
	for f.lab.JobState(id) != "RUNNING" {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// command is a command in the bench's own home.
func (f *field) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "HOME="+f.dir, "TUNCTL_HOME="+filepath.Join(f.dir, "home"),
		"TUNCTL_CONFIG="+filepath.Join(f.dir, "config.toml"), "TUNCTL_SSH_CONFIG="+f.sshConfig)
	return cmd
}

// ssh are the words of a stock ssh.
func (f *field) ssh(args ...string) []string {
	return append([]string{"ssh", "-F", f.sshConfig}, args...)
}

// output is what a command prints.
func (f *field) output(ctx context.Context, name string, args ...string) (string, error) {
	var talk strings.Builder
	cmd := f.command(ctx, name, args...)
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w\n%s", name, args, err, talk.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// steps is how many steps the session's job has, besides its script.
func (f *field) steps() (int, error) {
	out, err := f.lab.As("hpcuser", "squeue", "--steps", "--noheader", "--jobs="+f.job, "--format=%i")
	if err != nil {
		return 0, err
	}
	n := 0
	for id := range strings.FieldsSeq(out) {
		if !strings.HasSuffix(id, ".batch") && !strings.HasSuffix(id, ".extern") {
			n++
		}
	}
	return n, nil
}

func (f *field) close() {
	if f.lab != nil {
		_ = f.command(context.Background(), f.tunctl, "agent", "stop").Run() // where there is none, nothing is to be done
		if err := f.lab.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	f.narrow.Close()
	_ = os.RemoveAll(f.dir)
}
