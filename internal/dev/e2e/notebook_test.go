package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
)

const notebookConfig = `
[session.jupyter]
host   = "lab-login"
job    = "jupyterlab"
submit = "~/jupyter.sh"
local  = PORT
`

// notebookNamed is notebookConfig for a lab where others have jobs with the name that the
// script gives its own.
func notebookNamed(name string) string {
	return strings.ReplaceAll(notebookConfig, `"jupyterlab"`, strconv.Quote(name)) + `args = ["--job-name=` + name + "\"]\n"
}

// withJupyter is a config whose jobs run the application of Jupyter that TUNCTL_JUPYTER names, such as nbclassic,
// the notebook's page on Jupyter Server 1.
func withJupyter(config string) string {
	if app := os.Getenv("TUNCTL_JUPYTER"); app != "" {
		config += `args = ["--export=ALL,JUPYTER_APP=` + app + "\"]\n"
	}
	return config
}

// blocker takes both nodes whole, so that whatever comes after it must wait.
const blocker = "#!/bin/bash\n#SBATCH --exclusive --nodes=2 --time=10:00 --output=/dev/null\nsleep 600\n"

func TestTheCoursesNotebookOnRealParts(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newLaptop(t, notebookConfig)
	first := l.lab.Submit(blocker)
	l.lab.WaitJob(first, "RUNNING")

	up := l.command("up", "--no-open")
	var talk, out bytes.Buffer
	up.Stdout, up.Stderr = &out, &talk
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	l.awaitAgent()
	queued, _ := l.until("queued", is(api.SessionQueued))
	t.Logf("queued: %s (%s)", queued.Cause, queued.Hint)
	l.lab.Cancel(first)
	if err := up.Wait(); err != nil {
		t.Fatalf("up: %v\n%s", err, talk.String())
	}
	t.Logf("what a person sees:\n%s%s", talk.String(), out.String())
	s := l.status()
	if got := strings.TrimSpace(out.String()); got != s.URL || !strings.HasPrefix(got, "http://localhost:") {
		t.Errorf("up printed %q, the page is at %s", got, s.URL)
	}
	if s.Job == nil || s.Endpoint == nil || s.Endpoint.Host != s.Job.Node {
		t.Fatalf("status: %+v", s)
	}

	base, token := l.page()
	answersWithToken(t, base, token)
	kernelRuns(t, base, token)
	l.bundleIsClean()

	l.lab.Cancel(s.Job.ID)
	ended, _ := l.until("ended", is(api.SessionEnded))
	if !strings.Contains(ended.Cause, "cancelled") {
		t.Errorf("cause = %q, want the cancellation", ended.Cause)
	}

	l.run("up", "--no-open")
	again := l.status()
	if again.Local != s.Local {
		t.Errorf("the local address moved from %s to %s", s.Local, again.Local)
	}
	l.run("down", "--cancel")
	l.nothingLeft(again)
}

// awaitAgent waits until the command that was started has started the agent.
func (l *laptop) awaitAgent() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := l.client.Status(ctx); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.t.Fatal("the agent was never started")
		}
	}
}

func browser() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
}

// answersWithToken asks Jupyter for its status, with and without the token.
func answersWithToken(t *testing.T, base *url.URL, token string) {
	t.Helper()
	for _, tt := range []struct {
		token string
		want  int
	}{{token, http.StatusOK}, {"wrong", http.StatusForbidden}} {
		u := base.JoinPath("api/status")
		u.RawQuery = "token=" + tt.token
		res, err := browser().Get(u.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("/api/status answers %s, want %d", res.Status, tt.want)
		}
	}
}

// kernelRuns computes something in a kernel, over the websocket.
func kernelRuns(t *testing.T, base *url.URL, token string) {
	t.Helper()
	if said := kernelSays(t, base, token, "print(6*7)"); said != "42\n" {
		t.Errorf("the kernel says %q", said)
	}
}

// kernelSays is what code prints in a new kernel.
func kernelSays(t *testing.T, base *url.URL, token, code string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id := startKernel(ctx, t, base, token)
	u := base.JoinPath("api/kernels", id, "channels")
	u.Scheme, u.RawQuery = "ws", "token="+token
	conn, err := dialKernel(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.execute(ctx, "1", code); err != nil {
		t.Fatal(err)
	}
	said := ""
	for {
		msg, err := conn.read(ctx)
		if err != nil {
			t.Fatalf("no answer of the kernel: %v", err)
		}
		switch {
		case msg.Type == "stream": // a line may come in parts
			said += msg.Content.Text
		case msg.Parent.ID == "1" && msg.Content.State == "idle":
			return said
		}
	}
}

func startKernel(ctx context.Context, t *testing.T, base *url.URL, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("api/kernels").String(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	res, err := browser().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var kernel struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(res.Body).Decode(&kernel); err != nil || kernel.ID == "" {
		t.Fatalf("no kernel: %s, %v", res.Status, err)
	}
	return kernel.ID
}

// nothingLeft checks that a session that was taken down with its job is gone.
func (l *laptop) nothingLeft(was api.Session) {
	l.t.Helper()
	job, port := was.Job, was.Endpoint.Port
	l.lab.WaitJob(job.ID, "CANCELLED", "")
	for _, check := range []struct {
		node, what string
		argv       []string
	}{
		{job.Node, "a notebook's process", []string{"sh", "-c", fmt.Sprintf("ps -eo pid,etime,args | grep [j]upyter.*%d || true", port)}},
		{job.Node, "a notebook's socket", []string{"sh", "-c", fmt.Sprintf("ss -Htn '( sport = :%d )'", port)}},
	} {
		wait.Until(l.t, "nothing is left on "+check.node+" of "+check.what, func() bool { // the other end may close later
			out, err := l.lab.Exec(check.node, check.argv...)
			if err != nil {
				l.t.Fatal(err)
			}
			return strings.TrimSpace(out) == ""
		})
	}
	if res, err := http.Get("http://" + was.Local); err == nil { // for a tab that is open
		_ = res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable {
			l.t.Errorf("the local port answers %s", res.Status)
		}
	}
	s := l.status()
	if s.State != api.SessionDown || len(s.Forwards) != 0 {
		l.t.Errorf("status: %+v", s)
	}
}

// fetch asks the notebook for its status through the forward.
func fetch(base *url.URL, token string, timeout time.Duration) error {
	u := base.JoinPath("api/status")
	u.RawQuery = "token=" + token
	c := browser()
	c.Timeout = timeout
	res, err := c.Get(u.String())
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.80s", res.Status, body)
	}
	return nil
}
