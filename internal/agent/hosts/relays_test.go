package hosts

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"tunctl/tunnel/node"
	"tunctl/tunnel/step"
)

func TestRelaysThatAnAgentLeftAreForTheNextOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "relays.json")
	open := func() *relays { return openRelays(file, slog.New(slog.NewTextHandler(t.Output(), nil))) }
	record := func(job string) node.Record {
		return node.Record{Names: []string{"cn01"}, Job: job, Ticket: step.Ticket{Socket: "socket" + job, Secret: "secret" + job}}
	}
	now := time.Now()
	left := func(r *relays, host string, since time.Time) (jobs []string) {
		for _, record := range r.left(host, since) {
			jobs = append(jobs, record.Job)
		}
		return jobs
	}
	first := open()
	for host, jobs := range map[string][]string{"mine": {"1", "2", "3"}, "other": {"4"}} {
		for _, job := range jobs {
			relaysOf{host, first}.Add(record(job))
		}
	}
	relaysOf{"mine", first}.Remove(record("1"), false)
	relaysOf{"mine", first}.Remove(record("2"), true)
	if got := left(first, "mine", now); !reflect.DeepEqual(got, []string{"2"}) {
		t.Errorf("the agent itself left %q", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	next := open()
	for _, tt := range []struct {
		host  string
		since time.Time
		want  []string
	}{
		{"mine", now, []string{"2", "3"}},
		{"other", now, []string{"4"}},
		{"unknown", now, nil},
		{"mine", now, nil}, // over that connection they were tried
		{"mine", now.Add(time.Minute), []string{"2", "3"}},
	} {
		if got := left(next, tt.host, tt.since); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: left %q, want %q", tt.host, got, tt.want)
		}
	}
	relaysOf{"mine", next}.Remove(record("2"), false)
	if got := left(open(), "mine", now); !reflect.DeepEqual(got, []string{"3"}) {
		t.Errorf("after one was ended, there are %q", got)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := left(open(), "mine", now); got != nil {
		t.Errorf("of a broken file: %q", got)
	}
}
