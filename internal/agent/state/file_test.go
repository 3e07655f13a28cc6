package state

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// copyOf is a state file with that text.
func copyOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// jobsIn are the jobs of a store in words.
func jobsIn(s *Store) []string {
	var all []string
	for _, name := range s.names(func(Session) bool { return true }) {
		for _, x := range s.Session(name).Submissions {
			id := "none"
			if x.Job != nil {
				id = x.Job.ID
			}
			all = append(all, fmt.Sprintf("%s %s %s %s on %s", name, x.Role, id, x.Tag, x.Host))
		}
	}
	return all
}

func TestVersions(t *testing.T) {
	names, _ := filepath.Glob("testdata/version*.json")
	tests := map[string]struct {
		jobs   []string
		unread string
	}{
		"version1-7a742f71": {jobs: []string{"hpc-13 job 13  on hpc", "lost job none lost-bbbbbbbbbb on ", "nb job 11 nb-aaaaaaaaaa on hpc", "nb next 12 after-11-1794816000-720 on hpc"}},
		"version1-e5823e07": {jobs: []string{"nb job 11 nb-aaaaaaaaaa on hpc", "nb2 job none nb2-cccccccccc on hpc"}},
		"version2-9fa928ee": {jobs: []string{"nb job 11 nb-aaaaaaaaaa on hpc", "nb next 12 after-11-1794816000-720 on hpc", "nb other none nb-bbbbbbbbbb on hpc"}},
		"version2-84aff54b": {jobs: []string{"nb job 11 nb-aaaaaaaaaa on hpc"}},
		"version99":         {[]string{"nb job 11 nb-aaaaaaaaaa on hpc", "nb other 12  on ", "nb other none nb-bbbbbbbbbb on "}, "newer tunctl"},
	}
	if len(names) != len(tests) {
		t.Errorf("%d samples, %d tests", len(names), len(tests))
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, sample(t, name))
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := jobsIn(s); !slices.Equal(got, tt.jobs) {
				t.Errorf("jobs %q, want %q", got, tt.jobs)
			}
			if why := fmt.Sprint(s.Unread()); (s.Unread() != nil) != (tt.unread != "") || !strings.Contains(why, tt.unread) {
				t.Errorf("unread: %v", why)
			}
			s.Remember("other", func(k *api.Known) { k.Silent = true })
			again, err := Open(path)
			if err != nil || again.Unread() != nil || !slices.Equal(jobsIn(again), tt.jobs) || again.Incomplete("hpc") != (tt.unread != "") {
				t.Errorf("after a write: %v, %v, %q", err, again.Unread(), jobsIn(again))
			}
			kept, err := os.ReadFile(path + unreadSuffix)
			if (err == nil) != (tt.unread != "") || err == nil && string(kept) != sample(t, name) {
				t.Errorf("set aside: %v", err)
			}
		})
	}
	s, err := Open(copyOf(t, sample(t, "version1-7a742f71")))
	if err != nil {
		t.Fatal(err)
	}
	nb, lost := s.Session("nb"), s.Session("lost").Current()
	if !nb.Wanted || nb.Port != 40001 || nb.Asked != 43200 || nb.Current().With["gpus"] != "1" || nb.Current().Account == "" || nb.Next().Account == "" || !lost.Doubt || lost.With["hours"] != "2" || !s.Known("hpc").Silent || !s.Lists(SavedPasswords, "alice@login.hpc.example:22") {
		t.Errorf("%+v, %+v", nb, lost)
	}
}

func TestDamagedFile(t *testing.T) {
	for name, cut := range map[string]func(string) string{
		"cut off":     func(text string) string { return text[:len(text)/2] },
		"empty":       func(string) string { return "" },
		"zeros":       func(text string) string { return strings.Repeat("\x00", len(text)) },
		"wrong types": func(string) string { return `{"version":2,"sessions":[]}` },
	} {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, sample(t, "version2-9fa928ee"))
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			s.Remember("other", func(k *api.Known) { k.Silent = true })
			want := jobsIn(s)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := cut(string(good))
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(path); err != nil || !slices.Equal(jobsIn(s), want) {
				t.Fatalf("%v: %q", err, jobsIn(s))
			}
			if left, _ := os.ReadFile(path); string(left) != damaged {
				t.Error("a reader changed the file")
			}
			if at, why := Problem(path); at != path+unreadSuffix || why == nil || !strings.Contains(why.Error(), "damaged") {
				t.Errorf("before a write: %s: %v", at, why)
			}
			if !s.Incomplete("hpc") {
				t.Error("no job is looked for")
			}
			s.SetComplete("hpc")
			if s, err = Open(path); err != nil || s.Unread() != nil || s.Incomplete("hpc") || !s.Incomplete("other") {
				t.Errorf("after a write: %v, %v", err, s.Unread())
			}
			at, why := Problem(path)
			if kept, _ := os.ReadFile(at); why == nil || string(kept) != damaged {
				t.Errorf("after a write: %s: %v", at, why)
			}
		})
	}
	t.Run("without a copy", func(t *testing.T) {
		s, err := Open(copyOf(t, `{"version":`))
		if err != nil || s.Unread() == nil || !s.Incomplete("hpc") || len(jobsIn(s)) > 0 {
			t.Errorf("%v, %v", err, s.Unread())
		}
	})
	t.Run("is none", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		if at, why := Problem(path); why != nil {
			t.Errorf("%s: %v", at, why)
		}
		s, err := Open(path)
		if err != nil || s.Incomplete("hpc") {
			t.Errorf("%v", err)
		}
	})
}

func TestBegin(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "gone", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	before := Submissions{{Tag: "a", Role: RoleJob, When: time.Now()}}
	s.data.Sessions["nb"] = Session{Submissions: before}
	if err := s.Begin("nb", func(r *Session) { r.Submissions = r.Submissions.Put(Submission{Tag: "b", Role: RoleJob}) }); err == nil {
		t.Error("no error")
	}
	if got := s.Session("nb").Submissions; len(got) != 1 || got[0].Tag != "a" || got[0].Role != RoleJob {
		t.Errorf("what was not written is remembered: %+v", got)
	}
}
