package agent_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/testport"
)

// board is a web server on the loopback of the job's node, such as TensorBoard.
func board(t testing.TB, says string) (port string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, says) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	return port
}

// get returns what a local address serves; it waits while the forward there does.
func (w *world) get(address string, proxy func(*http.Request) (*url.URL, error)) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+address, nil)
	must(w.t, err)
	req.Header.Set("Accept", "text/html")
	browser := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, Proxy: proxy}}
	res, err := browser.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

// configWith is the config of a session with forwards.
func configWith(forwards ...string) string {
	return fmt.Sprintf("%sforward = [\"%s\"]\n", config, strings.Join(forwards, `", "`))
}

// listens returns where the forwards listen that are not for the page.
func listens(s api.Session) []string {
	var list []string
	for _, f := range s.Forwards {
		if f.Listen != s.Local {
			list = append(list, f.Listen)
		}
	}
	return list
}

func TestForward(t *testing.T) {
	t.Parallel()
	t.Run("leads to the job's node and follows it", func(t *testing.T) {
		w := newWorld(t)
		port := board(t, "the board")
		w.edit(configWith("0:"+port, "D:0"))
		s := w.idleJob("out.log") // there is no page, and none is needed
		w.until("forwarded", func(s api.Session) bool { return len(s.Forwards) == 3 && s.Forwards[1].Target != "" })
		at := listens(w.session())
		if got := w.get(at[0], nil); got != "the board" {
			t.Errorf("the forward leads to %q", got)
		}
		socks := func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "socks5h", Host: at[1]}, nil }
		if got := w.get(net.JoinHostPort("127.0.0.1", port), socks); got != "the board" {
			t.Errorf("the proxy leads to %q", got)
		}

		must(t, w.cluster.Requeue(s.Job.ID))
		w.until("on another node", func(now api.Session) bool {
			return now.Job != nil && now.Job.Node != "" && now.Job.Node != s.Job.Node && now.State == api.SessionStarting
		})
		if got := w.get(at[0], nil); got != "the board" {
			t.Errorf("after the move the forward leads to %q", got)
		}

		w.stop()
		w.start()
		w.until("starting again", startsOnNode)
		if got := w.get(at[0], nil); got != "the board" {
			t.Errorf("after a restart of the agent the forward leads to %q", got)
		}

		must(t, w.cluster.KillJob(s.Job.ID))
		ended := w.until("ended", func(s api.Session) bool { return s.State.Settled() })
		if got := w.get(at[0], nil); !strings.Contains(got, "could not start") {
			t.Errorf("without a job the forward answers %q", got)
		}
		if now := listens(ended); len(now) != 2 || now[0] != at[0] {
			t.Errorf("the forwards moved from %s to %s", at, now)
		}
	})
	t.Run("that was changed in the config is used at the next up", func(t *testing.T) {
		w := newWorld(t)
		one, two := board(t, "one"), board(t, "two")
		w.edit(configWith("0:" + one))
		s := w.idleJob("out.log")
		w.edit(configWith("0:" + two))
		if got := w.get(listens(w.session())[0], nil); got != "one" {
			t.Errorf("before the next up: %q", got)
		}
		must(t, w.cluster.KillJob(s.Job.ID))
		w.until("ended", func(s api.Session) bool { return s.State.Settled() })
		w.idleJob("out.log")
		now := w.session()
		if at := listens(now); len(at) != 1 || w.get(at[0], nil) != "two" || now.Local != s.Local {
			t.Errorf("after the next up: %+v", now.Forwards)
		}
	})
	t.Run("is added to a session that is up", func(t *testing.T) {
		w := newWorld(t)
		port := board(t, "the board")
		add := api.ForwardRequest{Session: "jupyter", Specs: []string{"0:" + port}}
		_, err := w.client.Forward(t.Context(), add)
		isCode(t, err, api.CodeNotReady, "tunctl up jupyter")
		if now := w.session(); now.State != api.SessionDown {
			t.Fatalf("a forward brought the session up: %+v", now)
		}

		s := w.idleJob("out.log")
		added, err := w.client.Forward(t.Context(), add)
		must(t, err)
		at := added.Forwards[0].Listen
		if got := w.get(at, nil); got != "the board" {
			t.Errorf("it leads to %q", got)
		}
		again, err := w.client.Forward(t.Context(), add)
		if err != nil || again.Forwards[0].Listen != at || len(again.Session.Forwards) != 2 {
			t.Errorf("the same again: %+v, %v", again.Forwards, err)
		}
		_, err = w.client.Forward(t.Context(), api.ForwardRequest{Session: "jupyter", Specs: []string{"R:9000:localhost:9000"}})
		isCode(t, err, api.CodeUsage, "tunctl forward practice R:")

		w.stop()
		w.start()
		w.until("starting again", startsOnNode)
		if got := w.get(at, nil); got != "the board" {
			t.Errorf("after a restart of the agent it leads to %q", got)
		}

		add.Remove = true
		removed, err := w.client.Forward(t.Context(), add)
		if err != nil || removed.Forwards[0].Listen != at || len(removed.Session.Forwards) != 1 {
			t.Errorf("removed %+v of %+v, %v", removed.Forwards, removed.Session.Forwards, err)
		}
		_, err = w.client.Forward(t.Context(), add)
		isCode(t, err, api.CodeUsage, "is not forwarded to session jupyter")

		add.Remove = false
		_, err = w.client.Forward(t.Context(), add)
		must(t, err)
		w.down(false)
		w.bringUp()
		after := w.until("starting again", func(now api.Session) bool { return now.State == api.SessionStarting && now.Job.ID == s.Job.ID })
		if len(after.Forwards) != 1 {
			t.Errorf("it is still there after a down: %+v", after.Forwards)
		}
	})
	t.Run("that was added and is in the config since is opened once", func(t *testing.T) {
		w := newWorld(t)
		port := board(t, "the board")
		w.idleJob("out.log")
		added, err := w.client.Forward(t.Context(), api.ForwardRequest{Session: "jupyter", Specs: []string{"0:" + port}})
		must(t, err)
		w.restart(configWith("0:"+port), nil)
		s := w.until("starting again", func(s api.Session) bool { return s.State == api.SessionStarting && len(s.Forwards) > 1 })
		if len(s.Forwards) != 2 || s.Forwards[1].Added || s.Forwards[1].Listen != added.Forwards[0].Listen {
			t.Errorf("the forwards are %+v", s.Forwards)
		}
	})
	t.Run("to a server that is not there is refused, and the session stays", func(t *testing.T) {
		w := newWorld(t)
		w.edit(configWith(fmt.Sprint("0:", testport.Free(t))))
		w.up()
		if got := w.get(listens(w.session())[0], nil); !strings.Contains(got, api.ErrRefused.Error()) && !strings.Contains(got, "reset") {
			t.Errorf("got %q", got)
		}
		w.opens()
	})
	t.Run("that never came up leaves nothing behind", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host closed", "Port ", "Port 1 #")
		for _, host := range []string{nowhere, "closed"} {
			gone := w.after(func() error {
				_, err := w.client.Forward(t.Context(), api.ForwardRequest{Host: host, Specs: []string{"R:9000:localhost:9000"}})
				return err
			}, func(e api.Event) bool { return e.Type == api.EventSessionGone }).Session
			if gone.State != api.SessionFailed || gone.Cause == "" {
				t.Errorf("%s: %+v", host, gone)
			}
			w.stop()
			w.start()
			st := w.status()
			if _, listed := st.Session(gone.Name); listed {
				t.Errorf("%s is listed after a restart: %+v", gone.Name, st.Sessions)
			}
		}
	})
}
