package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/api"
)

func TestAJobThatWritesNothingIsCalledSilentUntilItSpeaks(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.limits = func(l *agent.Limits) { l.Silent = 200 * time.Millisecond }
	w.start()
	speak := filepath.Join(w.cluster.Home(), "speak")
	script := "#!/bin/bash\n#SBATCH --output=quiet.%j.log\nuntil test -e " + speak + "; do sleep 0.05; done\necho hello\nsleep 600\n"
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), script)
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	silent := w.until("called silent", func(s api.Session) bool { return strings.Contains(s.Cause, "its log is still empty") })
	if log := "quiet." + silent.Job.ID + ".log"; !strings.HasPrefix(silent.Cause, "job "+silent.Job.ID+" has been running for ") || !strings.HasSuffix(silent.Cause, log) {
		t.Errorf("the cause is %q", silent.Cause)
	}
	if silent.State != api.SessionStarting || !strings.Contains(silent.Hint, "[session.jupyter]") {
		t.Errorf("%s, hint %q", silent.State, silent.Hint)
	}
	w.write(speak, "")
	w.until("no longer silent", func(s api.Session) bool {
		return s.State == api.SessionStarting && strings.HasPrefix(s.Cause, "looking for the server address in the log of job ") && s.Hint == ""
	})
}
