package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// TestAHundredLooksInTenMinutesCostTheHostsNothing is about the requests that the tools of
// `tunctl mcp` make: whatever the hosts are asked in these ten minutes, they are asked anyway.
func TestAHundredLooksInTenMinutesCostTheHostsNothing(t *testing.T) {
	t.Setenv("PATH", "") // without the ssh program, which would run in real time
	synctest.Test(t, func(t *testing.T) {
		g := newWorkday(t)
		g.up()
		g.until(8, 30)
		synctest.Wait()
		if s, _ := statusOf(g).Session("alpha-0"); s.State != api.SessionReady {
			t.Fatalf("%+v", s)
		}
		const looks = 100
		routes := localapi.Guard(g.agent.server.routes())
		for range looks {
			time.Sleep(10 * time.Minute / looks)
			synctest.Wait()
			before := g.asked()
			for _, path := range []string{"/v1/status", "/v1/hosts/alpha/last-jobs"} {
				r := httptest.NewRequest(http.MethodGet, "http://tunctl"+path, nil)
				w := httptest.NewRecorder()
				if routes.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Fatalf("%s: %d %s", path, w.Code, w.Body)
				}
			}
			synctest.Wait() // no time passes: what is asked now is asked because of the look
			if after := g.asked(); after != before {
				t.Fatalf("a look made the hosts do %d things", after-before)
			}
		}
		if g.asked() == 0 {
			t.Error("nothing was counted at all")
		}
	})
}

func statusOf(g *workday) *api.Status {
	st := g.agent.server.status()
	return &st
}

// asked is how often the hosts were used, in any way, so far.
func (g *workday) asked() int {
	sum := 0
	for _, h := range g.hosts {
		h.mu.Lock()
		for _, n := range h.uses {
			sum += n
		}
		h.mu.Unlock()
	}
	return sum
}
