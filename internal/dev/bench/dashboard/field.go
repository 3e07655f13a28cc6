//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"tunctl/internal/lab"
)

const config = `
[host.practice]

[session.jupyter]
host   = "practice"
job    = "jupyterlab"
submit = "~/jupyter.sh"
`

// sweep is a job that waits, as most of 200 do.
const sweep = "#!/bin/sh\n#SBATCH --job-name=sweep --time=1:00:00 --output=/dev/null\nexec sleep 3600\n"

// field is what this bench stands on: a practice cluster with many jobs, and a dashboard.
type field struct {
	dir     string
	tunctl  string
	cluster *lab.Cluster
	link    string // the address of the page
}

func newField(ctx context.Context, program string) (_ *field, err error) {
	f := &field{tunctl: program}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.dir, err = os.MkdirTemp("", "tunctl-bench-"); err != nil {
		return nil, err
	}
	if f.cluster, err = lab.Start(lab.Options{Dir: filepath.Join(f.dir, "cluster"), PageCommand: []string{program, "practice-page"}}); err != nil {
		return nil, err
	}
	for path, text := range map[string]string{
		filepath.Join(f.cluster.Home(), "jupyter.sh"): lab.JobScript(f.cluster.Dialect()),
		filepath.Join(f.cluster.Home(), "sweep.sh"):   sweep,
		filepath.Join(f.dir, "config.toml"):           config,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{
		{"up", "jupyter", "--no-open"},
		{"ssh", "practice", fmt.Sprintf("for i in $(seq %d); do sbatch sweep.sh; done", jobs)},
		{"status", "--refresh"},
	} {
		if out, err := f.command(ctx, args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("tunctl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	out, err := f.command(ctx, "dashboard", "--print").Output()
	f.link = strings.TrimSpace(string(out))
	return f, err
}

// command is tunctl in the bench's own home.
func (f *field) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, f.tunctl, args...)
	cmd.Env = append(os.Environ(), "TUNCTL_HOME="+filepath.Join(f.dir, "home"), "TUNCTL_CONFIG="+filepath.Join(f.dir, "config.toml"),
		"TUNCTL_SSH_CONFIG="+f.cluster.SSHConfig(), "TUNCTL_PRACTICE=1", "SSH_AUTH_SOCK=")
	return cmd
}

func (f *field) close() {
	if f.cluster != nil {
		_ = f.command(context.Background(), "agent", "stop").Run() // where there is none, nothing is to be done
		if err := f.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	_ = os.RemoveAll(f.dir)
}
