package agent_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
	"tunctl/internal/latest"
)

// idle is a job that writes nothing: the test is its server, and writes its log.
const idle = "#!/bin/sh\n#SBATCH --output=%DIRECTIVES%\nwhile :; do sleep 1; done\n"

const (
	firstToken  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	secondToken = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

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
	must(t, err)
	return server, u.Port()
}

// idleJob brings a session up whose job does nothing, and returns it when it runs.
func (w *world) idleJob(directives string) api.Session {
	w.t.Helper()
	w.script(strings.Replace(idle, "%DIRECTIVES%", directives, 1))
	w.bringUp()
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
	must(w.t, err)
}

func announcement(node, port, token string) string {
	return fmt.Sprintf("[I 2026-11-15 10:04:11.123 ServerApp] Jupyter Server 2.14.0 is running at:\n"+
		"[I 2026-11-15 10:04:11.123 ServerApp] http://%s:%s/lab?token=%s\n", node, port, token)
}

// runtimeFile writes the file by which Jupyter tells of a server.
func (w *world) runtimeFile(pid int, host, node, port, token string) {
	w.t.Helper()
	w.write(filepath.Join(w.cluster.Home(), fmt.Sprintf(".local/share/jupyter/runtime/jpserver-%d.json", pid)), fmt.Sprintf(
		`{"base_url": "/", "hostname": %q, "pid": %d, "port": %s, "sock": "", "token": %q, "url": "http://%s:%[3]s/"}`, host, pid, port, token, node))
}

func (w *world) token() string {
	w.t.Helper()
	page, err := w.client.Page(w.t.Context(), "jupyter")
	must(w.t, err)
	u, err := url.Parse(page.URL)
	must(w.t, err)
	return u.Query().Get("token")
}

// requestPage requests the page of a server that is gone until that is noticed, whatever it
// answers: a channel that was opened ahead may end first.
func (w *world) requestPage() {
	w.t.Helper()
	page, err := w.client.Page(w.t.Context(), "jupyter")
	must(w.t, err)
	browser := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	wait.Until(w.t, "the server is missed", func() bool {
		if res, err := browser.Get(page.URL); err == nil {
			_ = res.Body.Close()
		}
		return !ready(w.session())
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	t.Run("that starts again with a new token is followed", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("out.log")
		first, port := notebook(t, firstToken)
		w.appendTo("out.log", announcement(s.Job.Node, port, firstToken))
		before := w.until("ready", ready)
		if w.token() != firstToken {
			t.Error("the first server's token is not in the page's address")
		}

		first.CloseClientConnections()
		first.Close() // it crashes, and its log does not tell
		w.requestPage()
		w.until("without a server", func(s api.Session) bool {
			return s.State == api.SessionReconnecting && strings.Contains(s.Cause, "nothing listens there")
		})

		_, port = notebook(t, secondToken)
		w.appendTo("out.log", announcement(s.Job.Node, port, secondToken))
		after := w.until("ready", ready)
		if after.Local != before.Local || w.token() != secondToken {
			t.Errorf("the page moved from %s to %s", before.Local, after.Local)
		}
		w.opens()
	})
	t.Run("whose log says that a step was ended is asked", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("out.log")
		server, port := notebook(t, firstToken)
		asked := make(chan struct{}, 1)
		var silent atomic.Bool
		answer := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			latest.Signal(asked)
			if silent.Load() {
				panic(http.ErrAbortHandler)
			}
			answer.ServeHTTP(w, r)
		})
		w.appendTo("out.log", announcement(s.Job.Node, port, firstToken))
		w.until("ready", ready)
		w.appendTo("out.log", "slurmstepd: error: *** STEP "+s.Job.ID+".3 ON "+s.Job.Node+" CANCELLED AT 2026-11-15T10:04:11 ***\n")
		for range 3 {
			wait.For(t, "a request that nobody made by hand", asked)
		}
		w.opens()
		w.stop()
		w.start()
		w.until("ready", ready)

		silent.Store(true)
		server.CloseClientConnections()
		w.until("without a server", func(s api.Session) bool {
			return s.State == api.SessionReconnecting && strings.Contains(s.Cause, "has stopped; waiting for a new one")
		})
		silent.Store(false)
		w.until("ready", ready)
	})
	t.Run("that refuses the token is reported", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("out.log")
		_, port := notebook(t, firstToken)
		w.appendTo("out.log", announcement(s.Job.Node, port, "cccccccccccccccccccccccccccccccc"))
		w.until("starting, with the token refused", func(s api.Session) bool {
			return s.State == api.SessionStarting && strings.Contains(s.Cause, "refuses the token")
		})
		w.appendTo("out.log", announcement(s.Job.Node, port, firstToken))
		w.until("ready", ready)
	})
	t.Run("is found by the error log", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("out.%j.log\n#SBATCH --error=err.%j.log")
		_, port := notebook(t, firstToken)
		w.appendTo("out."+s.Job.ID+".log", "JupyterLab will listen on: "+s.Job.Node+":"+port+"\n")
		w.appendTo("err."+s.Job.ID+".log", announcement("hostname", "8888", firstToken))
		w.until("ready", ready)
		if w.token() != firstToken {
			t.Error("the token in the error log was not found")
		}
	})
	t.Run("without a log is found by Jupyter's own file", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("/dev/null")
		_, port := notebook(t, firstToken)
		w.runtimeFile(77, s.Job.Node, s.Job.Node, port, firstToken)
		w.until("ready", ready)
		w.opens()
	})
	t.Run("whose output PBS spools is found by Jupyter's own file", func(t *testing.T) {
		w := newWorldOf(t, lab.PBS)
		w.script("#!/bin/sh\n#PBS -N spooled\n#PBS -k n\necho hello\nexec sleep 600\n")
		w.bringUp()
		s := w.until("starting, with what is wrong", func(s api.Session) bool {
			return s.State == api.SessionStarting && strings.HasPrefix(s.Cause, "PBS keeps the output of job ") && s.Hint == api.HintSpooled
		})
		err := w.client.Log(t.Context(), api.LogQuery{Session: "jupyter"}, func(api.LogChunk) {})
		if said, ok := errors.AsType[*api.Error](err); !ok || said.Hint != api.HintSpooled {
			t.Errorf("the log: %v", err)
		}
		_, port := notebook(t, firstToken)
		w.runtimeFile(77, s.Job.Node, s.Job.Node, port, firstToken)
		w.until("ready", ready)
		w.opens()
	})
	t.Run("is not that of the runtime file of another job", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("out.log")
		_, port := notebook(t, firstToken)
		_, others := notebook(t, secondToken)
		w.runtimeFile(80, s.Job.Node, s.Job.Node, others, secondToken)
		w.appendTo("out.log", "JupyterLab will listen on: "+s.Job.Node+":"+port+"\n")
		w.until("known to want a token", func(s api.Session) bool { return s.State == api.SessionReady || strings.Contains(s.Cause, "token") })
		w.runtimeFile(79, s.Job.Node, s.Job.Node, port, firstToken)
		w.until("ready", ready)
		if w.token() != firstToken {
			t.Error("the session has the other job's token")
		}
	})
	t.Run("that hides its token is opened by the runtime file", func(t *testing.T) {
		w := newWorld(t)
		s := w.idleJob("out.log")
		_, port := notebook(t, firstToken)
		w.runtimeFile(78, "0.0.0.0", s.Job.Node, port, firstToken)
		w.appendTo("out.log", announcement(s.Job.Node, port, "..."))
		w.until("ready", ready)
		if w.token() != firstToken {
			t.Error("the token in the runtime file was not found")
		}
	})
	t.Run("that writes nothing is called silent until it does", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		w.limits = func(l *session.Limits) { l.Run.Silent = 200 * time.Millisecond }
		w.start()
		speak := filepath.Join(w.cluster.Home(), "speak")
		script := "#!/bin/bash\n#SBATCH --output=quiet.%j.log\nuntil test -e " + speak + "; do sleep 0.05; done\necho hello\nsleep 600\n"
		w.script(script)
		w.bringUp()
		silent := w.until("called silent", func(s api.Session) bool { return strings.Contains(s.Cause, "its log is still empty") })
		if log := "quiet." + silent.Job.ID + ".log"; !strings.HasPrefix(silent.Cause, "job "+silent.Job.ID+" has been running since ") || !strings.HasSuffix(silent.Cause, log) {
			t.Errorf("the cause is %q", silent.Cause)
		}
		if silent.State != api.SessionStarting || !strings.Contains(silent.Hint, "[session.jupyter]") {
			t.Errorf("%s, hint %q", silent.State, silent.Hint)
		}
		w.write(speak, "")
		w.until("no longer silent", func(s api.Session) bool {
			return s.State == api.SessionStarting && strings.HasPrefix(s.Cause, "looking for the server address in the log of job ") && s.Hint == ""
		})
	})
}
