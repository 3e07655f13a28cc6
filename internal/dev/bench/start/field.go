//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/real"
)

// field is what this bench stands on: a lab, and the user's home with tunctl's config.
type field struct {
	lab    *real.Cluster
	dir    string
	tunctl string
}

const config = `
[session.bench]
host   = "lab-login"
job    = "bench"
submit = "~/bench.sh"
`

func newField(program string) (*field, error) {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	f := &field{dir: dir, tunctl: program}
	if err = os.WriteFile(f.path("config.toml"), []byte(config), 0o600); err == nil {
		f.lab, err = real.Up(filepath.Base(dir), false, real.Options{})
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *field) path(name string) string { return filepath.Join(f.dir, name) }

// job serves on an address of its node, two seconds after its start, and notes when it
// listens.
const job = `#!/bin/bash
#SBATCH --job-name=bench --output=bench.%j.log --time=10:00
sleep 2
BIND=@BIND@ exec python3 -u -c '
import http.server, os, time
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass
server = http.server.HTTPServer((os.environ["BIND"], 0), Page)
listens = time.time()
print("[I ServerApp] http://%s:%d/lab?token=4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f" % (os.environ["BIND"], server.server_port))
with open("listens.new", "w") as f:
    f.write(str(listens))
os.rename("listens.new", "listens")
server.serve_forever()
'
`

// writeJob writes the job script to the home on the cluster.
func (f *field) writeJob(bind string) error {
	_, err := f.lab.As("hpcuser", "sh", "-c", `printf %s "$1" >~/bench.sh`, "sh", strings.ReplaceAll(job, "@BIND@", bind))
	return err
}

// up brings the session up with tunctl, and returns how long after the server listened the
// page was ready. Then it ends the job.
func (f *field) up(ctx context.Context) (time.Duration, error) {
	if err := f.run(ctx, f.tunctl, "up", "bench", "--no-open"); err != nil {
		return 0, err
	}
	wait, err := f.sinceListening()
	return wait, errors.Join(err, f.run(ctx, f.tunctl, "down", "bench", "--cancel"))
}

// steps are those of a guide: submit, see it run, find the address in the log, forward it.
// One connection carries them all, so that only one login counts.
const steps = `set -e
on() { ssh -F "$1" -S "$2" lab-login "$3"; }
ssh -F "$1" -M -S "$2" -o ControlPersist=yes -fN lab-login
trap 'ssh -F "$1" -S "$2" -O exit lab-login 2>/dev/null' EXIT
id=$(on "$1" "$2" "sbatch --parsable bench.sh")
echo "$id"
until test "$(on "$1" "$2" "squeue -h -j $id -o %T")" = RUNNING; do sleep 5; done
until url=$(on "$1" "$2" "grep -o 'http://[^ ]*' bench.$id.log"); do sleep 5; done
address=${url#http://}
ssh -F "$1" -S "$2" -O forward -L "$3:${address%%/*}" lab-login
until curl -sf -o "$4" "http://localhost:$3/"; do sleep 0.2; done
`

// byHand takes the same steps with ssh.
func (f *field) byHand(ctx context.Context) (time.Duration, error) {
	port, err := ground.FreePort()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", steps, "sh", f.lab.SSHConfig(), f.path("master"), strconv.Itoa(port), f.path("page"))
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("by hand: %w", err)
	}
	wait, err := f.sinceListening()
	return wait, errors.Join(err, f.lab.Cancel(strings.TrimSpace(string(out))))
}

// sinceListening is how long ago the server of the last job began to listen.
func (f *field) sinceListening() (time.Duration, error) {
	now := time.Now()
	text, err := f.lab.As("hpcuser", "sh", "-c", "cat ~/listens && rm ~/listens")
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return now.Sub(time.UnixMicro(int64(seconds * 1e6))), err
}

// run runs a command in the bench's own home.
func (f *field) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "TUNCTL_HOME="+f.path("home"), "TUNCTL_CONFIG="+f.path("config.toml"), "TUNCTL_SSH_CONFIG="+f.lab.SSHConfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tunctl %s: %w\n%s", args, err, out)
	}
	return nil
}

func (f *field) close() {
	if f.lab != nil {
		_ = f.run(context.Background(), f.tunctl, "agent", "stop") // where there is none, nothing is to be done
		if err := f.lab.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	_ = os.RemoveAll(f.dir)
}
