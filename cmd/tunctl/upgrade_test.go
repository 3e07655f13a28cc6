package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
)

func TestANewerProgramTakesOverWhatAnOlderAgentHolds(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	older, newer := program, filepath.Join(s.home, "..", "newer", "tunctl"+testprogram.Suffix())
	if err := testprogram.Build(t.Context(), newer, "v9.1.0"); err != nil {
		t.Fatal(err)
	}
	say := func(version string, args ...string) (out, talk string) {
		t.Helper()
		cmd := s.command(args...)
		cmd.Path, cmd.Args[0] = version, version
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

	is, _ := say(older, "version")
	_, talk := say(newer, "status")
	want := "the running agent is version " + strings.Fields(is)[1] + ", this program is version v9.1.0; `tunctl agent restart` updates the agent"
	if !strings.Contains(talk, want) {
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
