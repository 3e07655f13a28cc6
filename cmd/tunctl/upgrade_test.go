package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/testprogram"
)

// of returns the command run by another version of the program.
func (s *sandbox) of(version string, args ...string) *exec.Cmd {
	s.t.Helper()
	path := filepath.Join(s.home, "..", version, "tunctl"+testprogram.Suffix())
	if _, err := os.Stat(path); err != nil {
		if err := testprogram.Build(s.t.Context(), path, "-ldflags", "-X main.stamped="+version); err != nil {
			s.t.Fatalf("%s: %v", version, err)
		}
	}
	cmd := s.command(args...)
	cmd.Path, cmd.Args[0] = path, path
	return cmd
}

func TestANewerProgramTakesOverWhatAnOlderAgentHolds(t *testing.T) {
	t.Parallel()
	const older, newer = "v1.0.0", "v1.1.0"
	s := newSandbox(t)
	say := func(version string, args ...string) (out, talk string) {
		t.Helper()
		cmd := s.of(version, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("tunctl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	session := func(version string) (s api.Session) {
		t.Helper()
		out, _ := say(version, "status", "jupyter", "--json")
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return s
	}
	say(older, "up", "--no-open")
	before := session(older)

	_, talk := say(newer, "status")
	if want := "the running agent is version v1.0.0, this program is version v1.1.0; `tunctl agent restart` updates the agent"; !strings.Contains(talk, want) {
		t.Errorf("status said %q, want %q", talk, want)
	}
	say(newer, "agent", "restart")
	if _, talk := say(newer, "up", "--no-open"); strings.Contains(talk, "updates the agent") {
		t.Errorf("after the restart: %q", talk)
	}
	after := session(newer)
	if after.State != api.SessionReady || after.Local != before.Local || after.Job == nil || after.Job.ID != before.Job.ID {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
	if jobs := s.cluster.Jobs(); len(jobs) != 1 {
		t.Errorf("%d jobs were submitted", len(jobs))
	}
}
