//go:build linux

package jobwatch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"tunctl/internal/dev/jobtest"
	"tunctl/internal/dev/wait"
)

// note writes the folder of a submission, as the submit script does.
func note(t *testing.T, m *jobtest.Machine, tag, session, out string) {
	t.Helper()
	if err := os.MkdirAll(m.File(".tunctl/"+tag), 0o700); err != nil {
		t.Fatal(err)
	}
	m.Write(t, ".tunctl/"+tag+"/tunctl.session", session)
	if out != "" {
		m.Write(t, ".tunctl/"+tag+"/tunctl.exit", "0\n")
		m.Write(t, ".tunctl/"+tag+"/tunctl.out", out)
	}
}

func TestSubmitted(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T) *Watcher
		want    []string // tag, session, computer, id
	}{
		"no folder": {func(t *testing.T) *Watcher {
			t.Helper()
			return slurmWatcher(jobtest.NewSlurm(t))
		}, nil},
		"slurm": {func(t *testing.T) *Watcher {
			t.Helper()
			m := jobtest.NewSlurm(t)
			m.Write(t, "submitted", "7 "+m.File(".tunctl/nb-old/nb.sh")+"\n8 "+m.File("mine.sh")+"\n")
			note(t, m, "nb-old", "nb\n", "")                      // of an older tunctl, and the answer was lost
			note(t, m, "nb-over", "nb\nlaptop\n", "6\n")          // it has ended
			note(t, m, "nb-elsewhere", "nb\nlaptop\n", "8\n")     // of another cluster with the same home
			note(t, m, "bad tag", "nb\nlaptop\n", "7\n")          // not ours
			note(t, m, "nb-unanswered", "nb\nlaptop\n", "sbatch") // it may become one
			return slurmWatcher(m)
		}, []string{"nb-old nb  7"}},
		"grid engine, whose list has no scripts": {func(t *testing.T) *Watcher {
			t.Helper()
			m, w := newGridEngine(t, "5 r", "6 qw")
			note(t, m, "tag5", "nb\nlaptop\n", "5\n")
			note(t, m, "elsewhere", "nb\nlaptop\n", "6\n")
			return w
		}, []string{"tag5 nb laptop 5"}},
		"grid engine, which lost the answer": {func(t *testing.T) *Watcher {
			t.Helper()
			m, w := newGridEngine(t, "5 r", "6 qw")
			note(t, m, "tag5", "nb\nlaptop\n", "")
			return w
		}, []string{"tag5 nb laptop 5"}},
		"no scheduler": {func(t *testing.T) *Watcher {
			t.Helper()
			m := jobtest.NewMachine(t)
			w := plainWatcher(m)
			script := []byte("#!/bin/sh\nwhile test ! -f \"$HOME/stop\"; do sleep 0.02; done\n")
			if _, err := w.Submit(t.Context(), Submission{Tag: "t", Content: script, Base: "serve.sh", Session: "it's", Computer: "a b"}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				m.Write(t, "stop", "")
				wait.Until(t, "it writes nothing more", func() bool {
					job, found, err := w.Find(context.Background(), Query{ID: "t"})
					return err == nil && (!found || job.State.Ended())
				})
			})
			return plainWatcher(m)
		}, []string{"t it's a b t"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.prepare(t)
			list, err := w.Submitted(t.Context(), "", nil)
			var got []string
			for _, x := range list {
				got = append(got, fmt.Sprintf("%s %s %s %s", x.Tag, x.Session, x.Computer, x.Job.ID))
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%v: %q, want %q", err, got, tt.want)
			}
		})
	}
}

func TestSubmittedOfASession(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Write(t, "submitted", "7 "+m.File(".tunctl/nb-a/nb.sh")+"\n8 "+m.File(".tunctl/other/nb.sh")+"\n")
	note(t, m, "nb-a", "nb*\nlaptop\n", "7\n")
	note(t, m, "other", "nb2\nlaptop\n", "8\n")
	w := slurmWatcher(m)
	var looked []string
	for _, want := range []bool{false, true} {
		list, err := w.Submitted(t.Context(), "nb*", func(x Submitted) bool {
			looked = append(looked, x.Tag+" "+x.Job.ID)
			return want
		})
		if err != nil || len(list) > 0 != want || want && list[0].Job.ID != "7" {
			t.Errorf("%v, %v: %+v", want, err, list)
		}
		if asked := w.lastList; asked.IsZero() == want {
			t.Errorf("wanted %v, the scheduler was asked at %v", want, asked)
		}
	}
	if !slices.Equal(looked, []string{"nb-a 7", "nb-a 7"}) {
		t.Error(looked)
	}
}
