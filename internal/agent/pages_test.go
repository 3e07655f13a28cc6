package agent_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"tunctl/internal/api"
)

// pagesWorld is a session that is ready, whose job announces a page on the node's
// loopback and a notebook besides its own.
func pagesWorld(t *testing.T, boardPort string) (w *world, s api.Session) {
	t.Helper()
	w = newWorld(t)
	s = w.idleJob("out.log")
	_, second := notebook(t, secondToken)
	_, main := notebook(t, firstToken)
	w.appendTo("out.log", boardLine("localhost", boardPort)+
		announcement(s.Job.Node, second, secondToken)+announcement(s.Job.Node, main, firstToken))
	return w, w.until("ready with two other pages", func(s api.Session) bool { return ready(s) && len(s.Endpoints) == 2 })
}

func boardLine(host, port string) string {
	return fmt.Sprintf("TensorBoard 2.16.2 at http://%s:%s/ (Press CTRL+C to quit)\n", host, port)
}

func TestPage(t *testing.T) {
	t.Parallel()
	t.Run("follows a requeued job to its new node", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		must(t, w.cluster.Requeue(before.Job.ID))
		after := w.until("ready elsewhere", func(s api.Session) bool { return ready(s) && s.Job.Node != before.Job.Node })
		if after.Local != before.Local {
			t.Errorf("the local address moved from %s to %s", before.Local, after.Local)
		}
		if after.Endpoint.Host != after.Job.Node {
			t.Errorf("the forward goes to %s, the job is on %s", after.Endpoint.Host, after.Job.Node)
		}
		w.opens()
	})
	t.Run("besides the main one is forwarded when it is first opened", func(t *testing.T) {
		port := board(t, "the board")
		w, s := pagesWorld(t, port)
		if got := names(s); got != "jupyter-2 tensorboard" {
			t.Errorf("the other pages are %q", got)
		}
		if len(s.Forwards) != 1 || s.Endpoints[0].URL != "" || s.Endpoints[1].Reach != api.ReachNode {
			t.Errorf("before their first use: forwards %+v, endpoints %+v", s.Forwards, s.Endpoints)
		}

		page := w.open("tensorboard")
		if got := w.get(strings.TrimPrefix(page, "http://"), nil); got != "the board" {
			t.Errorf("%s shows %q", page, got)
		}
		second := w.open("jupyter-2")
		if u, err := url.Parse(second); err != nil || u.Query().Get("token") != secondToken {
			t.Errorf("the second notebook is at %q, %v", second, err)
		}
		if got := w.get(strings.TrimPrefix(second, "http://"), nil); got != "" {
			t.Errorf("the second notebook answers %q", got)
		}
		now := w.session()
		if len(now.Forwards) != 3 || now.Forwards[1].Endpoint != "jupyter-2" || now.Endpoints[1].URL != page || strings.Contains(fmt.Sprintf("%+v", now), secondToken) {
			t.Errorf("after their first use: forwards %+v, endpoints %+v", now.Forwards, now.Endpoints)
		}

		_, err := w.client.EndpointPage(t.Context(), "jupyter", "tensorbord")
		isCode(t, err, api.CodeUsage, "available: tensorboard, ")
		if main := w.open("jupyter"); !strings.HasPrefix(main, "http://localhost:"+s.Local[strings.LastIndexByte(s.Local, ':')+1:]+"/") {
			t.Errorf("the main page by its name is %q", main)
		}

		w.stop()
		w.start()
		w.until("ready with the same pages", func(now api.Session) bool {
			return ready(now) && names(now) == names(s) && now.Endpoints[1].URL == page
		})
		if got := w.get(strings.TrimPrefix(page, "http://"), nil); got != "the board" {
			t.Errorf("after a restart of the agent it shows %.200q", got)
		}
		if again := w.open("tensorboard"); again != page {
			t.Errorf("it moved from %s to %s", page, again)
		}
		w.down(false)
		_, err = w.client.EndpointPage(t.Context(), "jupyter", "tensorboard")
		isCode(t, err, api.CodeNotReady, "tunctl up jupyter")
	})
	t.Run("is used by the pages of its session and by no other notebook", func(t *testing.T) {
		w, s := pagesWorld(t, board(t, "the board"))
		page := w.open("tensorboard")
		_, elsewhere := notebook(t, secondToken)
		for port, want := range map[string]int{s.Local[strings.LastIndexByte(s.Local, ':')+1:]: http.StatusOK, elsewhere: http.StatusForbidden} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader("{}"))
			must(t, err)
			r.Header.Set("Origin", "http://localhost:"+port)
			resp, err := http.DefaultClient.Do(r)
			must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("a post to %s by the page on port %s: %s, want %d", page, port, resp.Status, want)
			}
		}
	})
	t.Run("besides the main one follows the job", func(t *testing.T) {
		port := board(t, "the board")
		w, s := pagesWorld(t, port)
		page := w.open("tensorboard")
		must(t, w.cluster.Requeue(s.Job.ID))
		moved := w.until("on another node", func(now api.Session) bool {
			return now.Job != nil && now.Job.Node != "" && now.Job.Node != s.Job.Node && len(now.Endpoints) == 0
		})
		_, main := notebook(t, firstToken)
		w.appendTo("out.log", announcement(moved.Job.Node, main, firstToken))
		w.until("ready without it", func(s api.Session) bool { return ready(s) && len(s.Endpoints) == 0 })
		if got := w.get(strings.TrimPrefix(page, "http://"), nil); !strings.Contains(got, "Waiting for tensorboard") {
			t.Errorf("while nothing announces it, it shows %.200q", got)
		}
		w.appendTo("out.log", boardLine(moved.Job.Node, port))
		w.until("announced again", func(s api.Session) bool { return ready(s) && len(s.Endpoints) == 1 })
		if got := w.get(strings.TrimPrefix(page, "http://"), nil); got != "the board" {
			t.Errorf("after the move it shows %q", got)
		}
	})
	t.Run("besides the main one is sent nothing before its first use", func(t *testing.T) {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
		t.Cleanup(server.Close)
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		w, _ := pagesWorld(t, port)
		if w.opens(); requests.Load() != 0 {
			t.Errorf("%d requests were sent to it", requests.Load())
		}
		if w.open("tensorboard"); requests.Load() == 0 {
			t.Error("it was opened without a proof that it answers")
		}
	})
	t.Run("that does not answer is not opened", func(t *testing.T) {
		w, _ := pagesWorld(t, "1")
		_, err := w.client.EndpointPage(t.Context(), "jupyter", "tensorboard")
		isCode(t, err, api.CodeNotReady, "tunctl logs jupyter")
		if now := w.session(); len(now.Forwards) != 1 {
			t.Errorf("it has a forward: %+v", now.Forwards)
		}
	})
	t.Run("that is the main one owns the programs inside the job", func(t *testing.T) {
		w, s := pagesWorld(t, board(t, "the board"))
		w.open("tensorboard")
		if got := w.agent.ServerPort("jupyter"); got != s.Endpoint.Port {
			t.Errorf("they get the environment of the server on port %d, want that of the main page, on %d", got, s.Endpoint.Port)
		}
	})
}

// open opens another page of the session's job.
func (w *world) open(name string) string {
	w.t.Helper()
	page, err := w.client.EndpointPage(w.t.Context(), "jupyter", name)
	must(w.t, err)
	return page.URL
}

func names(s api.Session) string {
	var list []string
	for _, e := range s.Endpoints {
		list = append(list, e.Name)
	}
	return strings.Join(list, " ")
}
