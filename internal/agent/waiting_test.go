package agent_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
)

func TestRedial(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, w *world, page string){
		"a command that shows the status": func(ctx context.Context, w *world, _ string) {
			_ = w.client.Watch(ctx, api.AnswersNone, "status", func(api.Event) {}) // it ends by our cancel
		},
		"a person who opens the page": func(ctx context.Context, _ *world, page string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
			if err != nil {
				return
			}
			req.Header.Set("Accept", "text/html")
			if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
				_ = res.Body.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stop()
			w.limits = func(l *session.Limits) {
				l.Tunnel.RetryMin, l.Tunnel.RetryMax = time.Hour, time.Hour
				l.Tunnel.StableAfter = time.Nanosecond
				l.Tunnel.InUse = time.Nanosecond // nobody waits just because the page was in use
			}
			w.start()
			before := w.up()
			must(t, w.cluster.Refuse(true))
			w.cluster.DropAll()
			w.until("waiting for the next try", func(s api.Session) bool {
				return s.State == api.SessionReconnecting && strings.Contains(s.Cause, "next try at")
			})
			must(t, w.cluster.Refuse(false))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				wait(ctx, w, "http://"+before.Local+"/")
			}()
			w.until("ready", ready)
			cancel()
			<-ended
		})
	}
}
