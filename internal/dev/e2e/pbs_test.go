package e2e

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/client"
	"tunctl/internal/home"
)

// pbsHost names a host that has PBS.
const pbsHost = "TUNCTL_PBS_HOST"

// TestASitesNotebookOnARealPBS runs where TUNCTL_PBS_HOST names a host for ssh, with a
// key that needs no person. TUNCTL_PBS_SITE is its site, TUNCTL_PBS_WITH are answers to
// the site's questions: project=personal gpus=0.
func TestASitesNotebookOnARealPBS(t *testing.T) {
	host := os.Getenv(pbsHost)
	if host == "" {
		t.Skip("TUNCTL_PBS_HOST names no host with PBS")
	}
	l := &laptop{t: t, home: filepath.Join(t.TempDir(), "h")}
	l.env = append(os.Environ(), "TUNCTL_HOME="+l.home, "TUNCTL_CONFIG=", "DISPLAY=", "BROWSER=", "NO_COLOR=1")
	l.client = client.New(home.In(l.home))
	t.Cleanup(l.close)
	words := []string{"init", cmp.Or(os.Getenv("TUNCTL_PBS_SITE"), "pbs"), "--host", host, "--session", "jupyter"}
	for _, answer := range strings.Fields(os.Getenv("TUNCTL_PBS_WITH")) {
		words = append(words, "--with", answer)
	}
	l.run(words...)
	t.Cleanup(func() { // whatever goes wrong, no job of ours stays
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = l.commandIn(ctx, "down", "--cancel").Run()
	})
	_, talk := l.run("up", "--no-open", "--wait", "2h")
	t.Logf("what a person sees:\n%s", talk)
	base, token := l.page()
	if path := strings.TrimSuffix(l.status().Endpoint.Path, "/lab"); path != "/" {
		base = base.JoinPath(path)
	}
	answersWithToken(t, base, token)
	_, talk = l.run("down", "--cancel")
	if !strings.Contains(talk, "was cancelled") {
		t.Errorf("down --cancel: %s", talk)
	}
}
