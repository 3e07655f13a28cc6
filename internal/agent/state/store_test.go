package state

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
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
	if err := s.Update("jupyter", func(r *Session) {
		*r = Session{Wanted: true, Port: 8888, Submissions: Submissions{{Tag: "t", Role: RoleJob, Job: &api.Job{ID: "7"}}}}
	}); err != nil {
		t.Fatal(err)
	}
	s.Remember("narval", func(k *api.Known) { k.Silent = true })
	s.Remember("narval", func(k *api.Known) { k.Address = "10.0.0.1:22" })
	logins := api.Logins{Last: time.Now().Round(0), Refusals: 2, BannedUntil: time.Now().Add(time.Hour).Round(0), Why: "refused"}
	s.Remember("narval", func(k *api.Known) { k.Logins = logins })
	s.Remember("other", func(k *api.Known) { k.Logins = api.Logins{Refusals: 1} })
	s.SetTestSubmits("narval")
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := again.Session("jupyter"); r.Port != 8888 || r.Current().Tag != "t" || r.Current().Job == nil || r.Current().Job.ID != "7" {
		t.Errorf("session = %+v", r)
	}
	if w := again.Wanted(); len(w) != 1 || w[0] != "jupyter" {
		t.Errorf("wanted = %v", w)
	}
	if !again.Known("narval").Silent || again.Known("narval").Address != "10.0.0.1:22" || again.Known("other").Silent {
		t.Error("hosts are not remembered")
	}
	if l := again.Known("narval").Logins; !l.Last.Equal(logins.Last) || !l.BannedUntil.Equal(logins.BannedUntil) || l.Refusals != 2 || l.Why != "refused" {
		t.Errorf("logins = %+v", l)
	}
	if !again.TestSubmits("narval") || again.TestSubmits("other") {
		t.Error("it is not remembered that a test submits a job")
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

func TestTheStateStaysSmallInAYearOfJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update("notebook", func(r *Session) { r.Port = 8888 }); err != nil {
		t.Fatal(err)
	}
	if err := s.Update("narval-0", func(r *Session) { r.Attached, r.Wanted = "narval", true }); err != nil {
		t.Fatal(err)
	}
	s.Remember("narval", func(k *api.Known) { k.Silent = true })
	const jobs = 10 * maxAttached
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	attached := func(i int) Session {
		job := api.Job{ID: fmt.Sprint(i), Start: begin.Add(time.Duration(i) * time.Hour)}
		return Session{Attached: "narval", Submissions: Submissions{{Role: RoleJob, Job: &job}}}
	}
	for i := range jobs - 1 { // an older version left them
		s.data.Sessions[fmt.Sprintf("narval-%d", i+1)] = attached(i)
	}
	if err := s.Update(fmt.Sprintf("narval-%d", jobs), func(r *Session) { *r = attached(jobs - 1) }); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(again.data.Sessions); n != maxAttached+2 {
		t.Errorf("%d sessions are remembered", n)
	}
	if again.Session("notebook").Port != 8888 || !again.Session("narval-0").Wanted || again.Session(fmt.Sprintf("narval-%d", jobs)).Current().Job == nil {
		t.Error("a session of the config, one that is up, or the newest is forgotten")
	}
}

func TestRememberedPortsAreBounded(t *testing.T) {
	var s Session
	s.KeepPorts(0, nil)
	if s.Ports != nil {
		t.Errorf("no ports are remembered as %v", s.Ports)
	}
	for i := range 3 * maxPorts {
		before := s.Ports
		s.KeepPorts(0, map[string]int{fmt.Sprint("0:", i): 40000 + i})
		if len(s.Ports) > maxPorts || s.Ports[fmt.Sprint("0:", i)] != 40000+i || len(before) > 0 && len(s.Ports) == 0 {
			t.Fatalf("after %d: %v", i, s.Ports)
		}
	}
}

func TestTheLastBalancesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)
	disk := func(used float64) []api.Balance {
		return []api.Balance{{Name: "/home", Used: used, Total: 50, Unit: "GB"}}
	}
	s.SetBalances(api.HostBalances{Host: "narval", Balances: disk(1), At: at})
	s.SetBalances(api.HostBalances{Host: "fir", Balances: disk(2), At: at})
	s.SetBalances(api.HostBalances{Host: "narval", Balances: disk(3), At: at})
	s.SetBalances(api.HostBalances{Host: "poor", At: at}) // nothing could be read
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	want := []api.HostBalances{{Host: "fir", Balances: disk(2), At: at}, {Host: "narval", Balances: disk(3), At: at}}
	if got := s.Balances(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.SetBalances(api.HostBalances{Host: "narval", At: at})
	if got := s.Balances(); len(got) != 1 {
		t.Errorf("what can no longer be read is still there: %+v", got)
	}
}

func TestAssistantsTogetherStayWithinTheirLimit(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var fitting atomic.Int32
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			_, fits, err := s.AddAssistantJob(AssistantJob{Tag: strconv.Itoa(i), At: now, NodeHours: 2}, 7)
			if err != nil {
				t.Error(err)
			}
			if fits {
				fitting.Add(1)
			}
		})
	}
	all.Wait()
	if got := s.AssistantHours(now); fitting.Load() != 3 || got != 6 {
		t.Errorf("%d jobs with %v node-hours", fitting.Load(), got)
	}
	if left, fits, _ := s.AddAssistantJob(AssistantJob{Tag: "next", At: now.Add(assistantDay - time.Second), NodeHours: 2}, 7); fits || left != 1 {
		t.Errorf("within the day: %v left, %v", left, fits)
	}
	if _, fits, _ := s.AddAssistantJob(AssistantJob{Tag: "next", At: now.Add(assistantDay), NodeHours: 7}, 7); !fits {
		t.Error("the jobs of yesterday still count")
	}
}
