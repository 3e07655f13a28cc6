package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestTheStoreRemembersAcrossAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update("jupyter", func(r *Session) { *r = Session{Wanted: true, Port: 8888, Tag: "t", Job: &api.Job{ID: "7"}} }); err != nil {
		t.Fatal(err)
	}
	s.SetSilent("narval", true)
	s.SetLastAddress("narval", "10.0.0.1:22")
	logins := api.Logins{Last: time.Now().Round(0), Refusals: 2, BannedUntil: time.Now().Add(time.Hour).Round(0), Why: "refused"}
	s.SetLogins("narval", logins)
	s.SetLogins("other", api.Logins{Refusals: 1})
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := again.Session("jupyter"); r.Port != 8888 || r.Tag != "t" || r.Job == nil || r.Job.ID != "7" {
		t.Errorf("session = %+v", r)
	}
	if w := again.Wanted(); len(w) != 1 || w[0] != "jupyter" {
		t.Errorf("wanted = %v", w)
	}
	if !again.Silent("narval") || again.LastAddress("narval") != "10.0.0.1:22" || again.Silent("other") {
		t.Error("hosts are not remembered")
	}
	if l := again.Logins("narval"); !l.Last.Equal(logins.Last) || !l.BannedUntil.Equal(logins.BannedUntil) || l.Refusals != 2 || l.Why != "refused" {
		t.Errorf("logins = %+v", l)
	}
	if !again.KnowsHost("narval") || again.KnowsHost("other") {
		t.Error("a host is known that was never logged in to, or not known that was")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); perm != 0o600 {
		t.Errorf("mode = %o", perm)
	}
}

func TestTheStoreRefusesWhatItCannotKeep(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"newer":   {`{"version":99}`, "newer tunctl"},
		"damaged": {`{"version":`, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
			if left, _ := os.ReadFile(path); string(left) != tt.text {
				t.Error("the file was changed")
			}
		})
	}
}

func TestAChangeThatCannotBeWrittenIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(filepath.Join(dir, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and goes on being one until it is written
		if err := s.Update("jupyter", func(r *Session) { r.Port = 8888 }); err == nil {
			t.Error("no error")
		}
	}
}
