package agent_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
)

// idle is a job that writes nothing: the test is its server, and writes its log.
const idle = "#!/bin/sh\n#SBATCH --output=%DIRECTIVES%\nwhile :; do sleep 1; done\n"

// notebook is a server in the job's place that wants a token, as Jupyter does.
func notebook(t testing.TB, token string) (server *httptest.Server, port string) {
	t.Helper()
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token "+token && r.URL.Query().Get("token") != token {
			http.Error(w, "who are you?", http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return server, u.Port()
}

// idleJob brings a session up whose job does nothing, and returns it when it runs.
func (w *world) idleJob(directives string) api.Session {
	w.t.Helper()
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), strings.Replace(idle, "%DIRECTIVES%", directives, 1))
	if _, err := w.client.Up(w.t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		w.t.Fatal(err)
	}
	return w.until("starting", startsOnNode)
}

func startsOnNode(s api.Session) bool { return s.State == api.SessionStarting && s.Job.Node != "" }

// appendTo adds to a file of the cluster's home.
func (w *world) appendTo(file, text string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.cluster.Home(), file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func announcement(node, port, token string) string {
	return fmt.Sprintf("[I 2026-11-15 10:04:11.123 ServerApp] Jupyter Server 2.14.0 is running at:\n"+
		"[I 2026-11-15 10:04:11.123 ServerApp] http://%s:%s/lab?token=%s\n", node, port, token)
}

func (w *world) token() string {
	w.t.Helper()
	page, err := w.client.Page(w.t.Context(), "jupyter")
	if err != nil {
		w.t.Fatal(err)
	}
	u, err := url.Parse(page.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	return u.Query().Get("token")
}

// requestPage requests the page of a server that is gone, whatever it answers: a channel
// that was opened ahead may end first.
func (w *world) requestPage() {
	w.t.Helper()
	page, err := w.client.Page(w.t.Context(), "jupyter")
	if err != nil {
		w.t.Fatal(err)
	}
	browser := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		if res, err := browser.Get(page.URL); err == nil {
			_ = res.Body.Close()
		}
	}
}

func TestAServerThatStartsAgainWithANewTokenIsFollowed(t *testing.T) {
	w := newWorld(t)
	s := w.idleJob("out.log")
	first, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.appendTo("out.log", announcement(s.Job.Node, port, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	before := w.until("ready", ready)
	if w.token() != "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
		t.Error("the first server's token is not in the page's address")
	}

	first.CloseClientConnections()
	first.Close() // it crashes, and its log does not tell
	w.requestPage()
	w.until("without a server", func(s api.Session) bool {
		return s.State == api.SessionReconnecting && strings.Contains(s.Cause, "nothing listens there")
	})

	_, port = notebook(t, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	w.appendTo("out.log", announcement(s.Job.Node, port, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"))
	after := w.until("ready", ready)
	if after.Local != before.Local || w.token() != "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" {
		t.Errorf("the page moved from %s to %s", before.Local, after.Local)
	}
	if code := w.fetch(); code != http.StatusOK {
		t.Errorf("the new server's page answers %d", code)
	}
}

func TestATokenThatTheServerRefusesIsSaid(t *testing.T) {
	w := newWorld(t)
	s := w.idleJob("out.log")
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.appendTo("out.log", announcement(s.Job.Node, port, "cccccccccccccccccccccccccccccccc"))
	w.until("starting, with the token refused", func(s api.Session) bool {
		return s.State == api.SessionStarting && strings.Contains(s.Cause, "refuses the token")
	})
	w.appendTo("out.log", announcement(s.Job.Node, port, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	w.until("ready", ready)
}

func TestAnAddressInTheErrorLogIsFound(t *testing.T) {
	w := newWorld(t)
	s := w.idleJob("out.%j.log\n#SBATCH --error=err.%j.log")
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.appendTo("out."+s.Job.ID+".log", "JupyterLab will listen on: "+s.Job.Node+":"+port+"\n")
	w.appendTo("err."+s.Job.ID+".log", announcement("hostname", "8888", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	w.until("ready", ready)
	if w.token() != "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
		t.Error("the token in the error log was not found")
	}
}

func TestAJobWithoutALogIsFoundByJupytersOwnFile(t *testing.T) {
	w := newWorld(t)
	s := w.idleJob("/dev/null")
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.write(filepath.Join(w.cluster.Home(), ".local/share/jupyter/runtime/jpserver-77.json"), fmt.Sprintf(
		`{"base_url": "/", "hostname": %q, "password": false, "pid": 77, "port": %s, "secure": false, "sock": "", "token": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "url": "http://%s:%s/"}`,
		s.Job.Node, port, s.Job.Node, port))
	w.until("ready", ready)
	if code := w.fetch(); code != http.StatusOK {
		t.Errorf("the page answers %d", code)
	}
}

func TestTheRuntimeFileOfAnotherJobOnTheNodeIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	s := w.idleJob("out.log")
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	_, others := notebook(t, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	file := func(pid int, port, token string) {
		w.write(filepath.Join(w.cluster.Home(), fmt.Sprintf(".local/share/jupyter/runtime/jpserver-%d.json", pid)), fmt.Sprintf(
			`{"base_url": "/", "hostname": %q, "pid": %d, "port": %s, "sock": "", "token": %q, "url": "http://%[1]s:%[3]s/"}`, s.Job.Node, pid, port, token))
	}
	file(80, others, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	w.appendTo("out.log", "JupyterLab will listen on: "+s.Job.Node+":"+port+"\n")
	w.until("known to want a token", func(s api.Session) bool { return s.State == api.SessionReady || strings.Contains(s.Cause, "token") })
	file(79, port, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.until("ready", ready)
	if w.token() != "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
		t.Error("the session has the other job's token")
	}
}

func TestARedactedTokenComesFromTheRuntimeFile(t *testing.T) {
	w := newWorld(t)
	s := w.idleJob("out.log")
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.write(filepath.Join(w.cluster.Home(), ".local/share/jupyter/runtime/jpserver-78.json"), fmt.Sprintf(
		`{"base_url": "/", "hostname": "0.0.0.0", "pid": 78, "port": %s, "sock": "", "token": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "url": "http://%s:%s/"}`,
		port, s.Job.Node, port))
	w.appendTo("out.log", announcement(s.Job.Node, port, "..."))
	w.until("ready", ready)
	if w.token() != "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
		t.Error("the token in the runtime file was not found")
	}
}

func TestAnEndIsToldFromOneThatAPersonAskedFor(t *testing.T) {
	w := newWorld(t)
	for name, end := range map[string]func(s api.Session) error{
		"cancelled through us": func(s api.Session) error {
			_, err := w.client.Cancel(t.Context(), s.Host, s.Job.ID)
			return err
		},
		"killed elsewhere": func(s api.Session) error { return w.cluster.KillJob(s.Job.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := end(w.up()); err != nil {
				t.Fatal(err)
			}
			ended := w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
			if want := name == "cancelled through us"; ended.Asked != want {
				t.Errorf("asked for: %t, want %t: %s", ended.Asked, want, ended.Cause)
			}
		})
	}
}

func TestAJobThatWritesNothingIsCalledSilentUntilItSpeaks(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.limits = func(l *session.Limits) { l.Silent = 200 * time.Millisecond }
	w.start()
	speak := filepath.Join(w.cluster.Home(), "speak")
	script := "#!/bin/bash\n#SBATCH --output=quiet.%j.log\nuntil test -e " + speak + "; do sleep 0.05; done\necho hello\nsleep 600\n"
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), script)
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
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

func TestAnUpAfterACancelElsewhereDoesNotCallTheOldJobReady(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.limits = func(l *session.Limits) { l.Jobs.Query = time.Hour } // the agent does not notice by itself
	w.start()
	before := w.up()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.cluster.KillJob(before.Job.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.Await(ctx, before.Job.ID); err != nil {
		t.Fatal(err)
	}
	answer, err := w.client.Up(ctx, api.UpRequest{Session: "jupyter"})
	if err != nil {
		t.Fatal(err)
	}
	if ready(answer.Session) {
		t.Errorf("job %s is over, and the session is %s", before.Job.ID, answer.Session.State)
	}
	w.until("ready with another job", func(s api.Session) bool { return ready(s) && s.Job.ID != before.Job.ID })
}

func TestAnUpOfASessionThatServesChangesNothing(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	answer, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"})
	if err != nil {
		t.Fatal(err)
	}
	if now := answer.Session; !ready(now) || now.Job.ID != before.Job.ID || !now.Since.Equal(before.Since) {
		t.Errorf("before %+v, after %+v", before, now)
	}
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
}

func TestAnUpThatIsLeftAtOnceSaysNothingAboutThePage(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.cluster.Pause() // the agent waits for the page, and the person does not
	brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := w.client.Up(brief, api.UpRequest{Session: "jupyter"}); err == nil {
		t.Fatal("the page responded over a link that is paused")
	}
	w.cluster.Resume()
	answer, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"})
	if err != nil {
		t.Fatal(err)
	}
	if now := answer.Session; !ready(now) || !now.Since.Equal(before.Since) {
		t.Errorf("before %+v, after %+v", before, now)
	}
}
