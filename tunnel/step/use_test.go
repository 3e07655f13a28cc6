//go:build linux

package step

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"tunctl/internal/dev/wait"
)

func TestUseMark(t *testing.T) {
	mark := regexp.MustCompile(fmt.Sprintf(`@tunctl-inside-%d-(\d+)`, os.Getuid()))
	marks := func() map[string]bool {
		text, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Skip(err)
		}
		found := map[string]bool{}
		for _, m := range mark.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return found
	}
	process := newProcess(t)
	c, err := Start(t.Context(), process, Options{})
	if err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint(process.cmd.Process.Pid)
	p := newSession(t, c)
	p.must(t, "env", struct{ Name, Value string }{Meter, "1"})
	p.must(t, "exec", text{"echo $$; " + idle})
	started(t, p)
	if marks()[pid] {
		t.Error("what measures the job uses it")
	}
	q := run(t, c, "echo $$; "+idle)
	started(t, q)
	wait.Until(t, "the job is in use", func() bool { return marks()[pid] })
	_ = c.Close()
	wait.Until(t, "the mark is gone with the relay", func() bool { return !marks()[pid] })
}
