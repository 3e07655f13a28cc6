package agent

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// TestFree: what is free is also offered as choices, and not asked for again, for a minute.
func TestFree(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.connect()
		mark, asked := regexp.MustCompile(`(?m)^mark='?([\w-]+)`), 0
		l.interpose(func(script string) (string, string, int, bool) {
			if !strings.Contains(script, "part waiting") {
				return "", "", 0, false
			}
			asked++
			out := "\nMARK person\nslurm\nalice\n/home/alice\nalice\n\nMARK partitions\nPartitionName=gpu State=UP MaxTime=1:00:00\n\nMARK nodes\ngpu|idle|1|0/64/0/64|64|512000|gpu:a100:4|gpu:a100:0(IDX:N/A)|\n"
			return strings.ReplaceAll(out, "MARK", mark.FindStringSubmatch(script)[1]), "", 0, true
		})
		offered := func() []string {
			s, err := l.agent.Sessions.Find(modelSession)
			must(m.t, err)
			res, err := l.agent.server.handleChoices(s, httptest.NewRequestWithContext(m.t.Context(), "GET", "/", nil), nil)
			must(m.t, err)
			i := slices.IndexFunc(res.Options, func(o api.Option) bool { return o.Name == "gpus" })
			return res.Options[i].Known
		}
		look := func() {
			free, err := l.agent.Hosts.Free(m.t.Context(), "hpc")
			if err != nil || len(free.Partitions) != 1 || free.Partitions[0].FreeGPUs != 4 {
				m.t.Fatalf("%+v, %v", free, err)
			}
		}
		want := func(queries int, gpus ...string) {
			m.t.Helper()
			if got := offered(); asked != queries || !slices.Equal(got, gpus) {
				m.t.Errorf("%d queries, want %d; offered %v, want %v", asked, queries, got, gpus)
			}
		}
		want(0)
		look()
		want(1, "1", "2", "4")
		m.sleep(50 * time.Second)
		look()
		want(1, "1", "2", "4")
		m.sleep(15 * time.Second)
		want(1) // it is old now, and a completion asks nothing
		look()
		want(2, "1", "2", "4")
	})
}
