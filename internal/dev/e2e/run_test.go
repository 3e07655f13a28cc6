package e2e

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
)

const runConfig = `
[host.lab-login]
scheduler = "slurm"

[session.jupyter]
host   = "lab-login"
submit = "builtin:jupyter"
with   = { hours = 1 }
args   = ["--mem=200M"]
local  = PORT
`

// TestRunThroughCut: what the command prints while there is no connection is not lost, nor is its status.
func TestRunThroughCut(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	l := newLaptop(t, runConfig)
	const size = 50_000_000
	// The numbers show what is missing or twice, and end in the middle of one.
	cmd := l.command("run", "jupyter", "--", "sh", "-c", fmt.Sprintf("echo begun; until test -e /home/hpcuser/go; do sleep 0.2; done; seq 10000000 | head -c %d; exit 3", size))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var talk strings.Builder
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(out, 1<<20)
	if line, err := lines.ReadString('\n'); line != "begun\n" {
		t.Fatalf("%q, %v\n%s", line, err, talk.String())
	}
	l.write("/home/hpcuser/go", "")
	got, want := sha256.New(), sha256.New()
	first, err := io.CopyN(got, lines, size/5)
	if err != nil {
		t.Fatal(err)
	}
	l.lab.Cut("reset")
	wait.Until(t, "the connection is lost", func() bool {
		st, err := l.client.Status(t.Context())
		return err == nil && !slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.State == api.HostUp })
	})
	l.lab.Restore("reset")
	rest, err := io.Copy(got, lines)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	at := 0
	for n := 1; at < size; n++ {
		line := fmt.Sprintln(n)
		at += len(line)
		_, _ = io.WriteString(want, line[:len(line)-max(0, at-size)])
	}
	if first+rest != size || string(got.Sum(nil)) != string(want.Sum(nil)) || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%d bytes, %x, status %d\n%s", first+rest, got.Sum(nil), cmd.ProcessState.ExitCode(), talk.String())
	}
}
