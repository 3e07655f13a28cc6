package agent_test

import (
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

// BenchmarkLineToReady measures the time from a line's write in the job's log on the
// host to a page that answers here: at the rate at which a log is followed while its
// job starts, and with that wait all but taken away.
func BenchmarkLineToReady(b *testing.B) {
	for name, every := range map[string]time.Duration{
		"polite": remote.DefaultLimits().LogFirst,
		"quick":  10 * time.Millisecond,
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			w.restart(config, func(l *session.Limits) { l.Jobs.LogFirst, l.Jobs.Jitter = every, 0 })
			_, port := notebook(b, firstToken)
			var total time.Duration
			round := 0
			for b.Loop() {
				s := w.idleJob("out.%j.log")
				<-time.After(every * time.Duration(round%4) / 4) // at any moment between two reads
				round++
				began := time.Now()
				w.appendTo("out."+s.Job.ID+".log", announcement(s.Job.Node, port, firstToken))
				w.until("ready", ready)
				total += time.Since(began)
				_, err := w.client.Down(b.Context(), api.DownRequest{Session: "jupyter", Cancel: true})
				must(b, err)
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/line-to-ready")
			b.ReportMetric(0, "ns/op") // says nothing: it has the job's queue in it
		})
	}
}
