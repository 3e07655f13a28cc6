package joblog

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

func TestTheEndOfALogIsShownAsATerminalWould(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Write(t, "log", "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x07\r\n 10%\r 20%\r\n\u009b2Jé\tend")
	if got, err := Tail(t.Context(), m, "~/log", 5); err != nil || string(got) != "red\n 20%\né\tend" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTheEndOfALogAndSmallFilesAreRead(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Write(t, "log", "one\ntwo\nthree\nfour")
	for lines, want := range map[int]string{1: "four", 2: "three\nfour", 9: "one\ntwo\nthree\nfour"} {
		if got, err := Tail(t.Context(), m, "~/log", lines); err != nil || string(got) != want {
			t.Errorf("%d lines: %q, %v", lines, got, err)
		}
	}
	if got, err := ReadFile(t.Context(), m, m.File("log")); err != nil || len(got) != 18 {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := Tail(t.Context(), m, "~/nothing", 3)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeNotReady {
		t.Errorf("got %v", err)
	}
}

func TestManyLinesOfALongLogAreThoseAtItsEnd(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Write(t, "log", strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000)+"the end\n")
	got, err := Tail(t.Context(), m, "~/log", 1000)
	if err != nil || !strings.HasSuffix(string(got), "\nthe end\n") || strings.Count(string(got), "\n") != 1000 {
		t.Errorf("%d lines to …%q, %v", strings.Count(string(got), "\n"), got[max(0, len(got)-20):], err)
	}
}

func TestALogIsFollowedFromItsLastLinesOn(t *testing.T) {
	m := jobtest.NewMachine(t)
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000)
	for name, tt := range map[string]struct{ log, want string }{
		"a long log":   {long + "one\ntwo\nthr", "one\ntwo\nthr"},
		"a short log":  {"one\ntwo", "one\ntwo"},
		"an empty log": {"", ""},
	} {
		m.Write(t, "log", tt.log)
		from, err := TailPosition(t.Context(), m, "~/l?g", 3)
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(t, m, FollowOptions{Paths: []string{"~/l?g"}, From: []Position{from}})
		r.expects(name, tt.want, false)
		m.Write(t, "log", tt.log+"ee\nfour\n")
		r.expects(name+" that grows", "ee\nfour\n", false)
		m.Write(t, "log", "another\n")
		r.expects(name+" that was replaced", "another\n", true)
	}
	if _, err := TailPosition(t.Context(), m, "~/nothing", 3); err == nil {
		t.Error("a file that does not exist has a last line")
	}
}

func TestALogPatternIsFilledInWithoutBecomingAGlob(t *testing.T) {
	m := jobtest.NewMachine(t)
	job := api.Job{ID: "28[1].vm", Name: "a*b", Node: "cn1"}
	pattern := Expand("~/{user}-{name}.{id}.{node}.l?g", job, "me")
	m.Write(t, "me-aXb.281.vm.cn1.log", "wrong\n")
	r := newReader(t, m, FollowOptions{Paths: []string{pattern}})
	r.expects("only a look-alike", "", false)
	m.Write(t, "me-a*b.28[1].vm.cn1.log", "right\n")
	r.expects("the one", "right\n", false)
}

func FuzzLogPath(f *testing.F) {
	for _, s := range []string{"~/x", "a b", "$(touch x)", "`x`", "a*", "[a", "it's", `\`, `\*`, "a;b", "~", "a\nb", "{id}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dir := t.TempDir()
		m := &jobtest.Machine{Home: dir, Shell: []string{"sh", "-c"}}
		_, err := readFiles(t.Context(), &remote.Shell{Runner: m, Limit: 10 * time.Second}, []fileRequest{{pattern: s}, {pattern: Expand("~/{name}x", api.Job{Name: s}, s)}})
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(dir + "/*"); len(left) != 0 {
			t.Fatalf("%q made %q", s, left)
		}
	})
}

func TestAFileBelongsToAJobIfItsNameHasTheNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, id string
		want     bool
	}{
		{"/home/mira/slurm-123.out", "123", true},
		{"/home/mira/nb.o123", "123.srv", true},
		{"/home/mira/nb.123.srv.log", "123.srv", true},
		{"/home/mira/slurm-123_4.out", "123", true},
		{"/home/mira/slurm-1234.out", "123", false},
		{"/home/mira/slurm-0123.out", "123", false},
		{"/scratch/123/jupyter.log", "123", false}, // 123 may be a project
		{"/home/mira/jupyter.log", "123", false},
		{"/home/mira/jupyter.log", "", false},
		{"/home/mira/.tunctl/lab-ab12/tunctl.log", "lab-ab12", true},
		{"/home/mira/.tunctl/other/tunctl.log", "lab-ab12", false},
	} {
		if got := NamesJob(tt.file, tt.id); got != tt.want {
			t.Errorf("%s of job %s: %v", tt.file, tt.id, got)
		}
	}
}
