package jobwatch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/detect"
)

// shellRunner runs commands on this computer, in a home of its own.
type shellRunner struct{ home string }

func (r shellRunner) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = []string{"HOME=" + r.home, "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(string(stdin))
	out, err := cmd.Output()
	return Result{Stdout: out}, err
}

func TestTwoJobsOnOneNodeDoNotOpenEachOthersNotebook(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	home := shellRunner{t.TempDir()}
	job := api.Job{Node: "cn01", Start: time.Now().Add(-time.Minute)}
	write := func(pid, port int) {
		t.Helper()
		file := fmt.Sprintf(`d="$HOME/.local/share/jupyter/runtime"; mkdir -p "$d"; cat >"$d/jpserver-%d.json"`, pid)
		text := fmt.Sprintf(`{"base_url": "/", "hostname": "0.0.0.0", "pid": %d, "port": %d, "secure": false, "sock": "", "token": "t%d", "url": "http://cn01:%d/"}`, pid, port, pid, port)
		if _, err := home.Run(t.Context(), file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(100, 8888) // of the first job
	write(200, 8889) // of the second, and newer
	for pid, port := range map[int]int{100: 8888, 200: 8889} {
		files := &RuntimeFiles{runner: home, job: job, owns: func(_ context.Context, p int) (bool, error) { return p == pid, nil }}
		f, ok := files.Find(t.Context())
		if !ok || f.Port != port || f.Token.Reveal() != fmt.Sprintf("t%d", pid) {
			t.Errorf("the job of process %d opens port %d: %v", pid, f.Port, ok)
		}
	}
	unsure := &RuntimeFiles{runner: home, job: job, owns: func(context.Context, int) (bool, error) { return false, ErrOwnerUnknown }}
	if f, ok := unsure.Find(t.Context()); ok || unsure.Err() == nil {
		t.Errorf("nobody can tell whose it is, and port %d is opened", f.Port)
	}
	// What a log announces needs no other proof.
	announced := detect.Finding{Found: true, Endpoint: api.Endpoint{Port: 8888}}
	if f, ok := unsure.find(t.Context(), announced, false); !ok || f.Token.Reveal() != "t100" {
		t.Errorf("the announced port: %+v, %v", f, ok)
	}
}

func TestWhoseAFileIsIsNotAskedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, ErrOwnerUnknown
		files := &RuntimeFiles{owns: func(context.Context, int) (bool, error) { asked++; return answer == nil, answer }}
		for range 10 {
			files.own(t.Context(), "/h/jpserver-7.json")
			time.Sleep(10 * time.Second)
		}
		if asked != 2 {
			t.Errorf("asked %d times within 100 s, though nobody can tell", asked)
		}
		answer = nil
		time.Sleep(askOwnerAgain)
		for range 2 {
			if !files.own(t.Context(), "/h/jpserver-7.json") || asked != 3 {
				t.Errorf("asked %d times", asked)
			}
		}
	})
}

func TestRuntimeFilesSinceTheJobsStartAreFound(t *testing.T) {
	m := newMachine(t)
	dir := ".local/share/jupyter/runtime/"
	if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for name, age := range map[string]time.Duration{
		"jpserver-1.json": time.Hour, "jpserver-2.json": -time.Second, "nbserver-3.json": -2 * time.Second, "kernel-4.json": -time.Second, "jpserver-2-open.html": -time.Second,
	} {
		m.file(t, dir+name, "{}")
		if err := os.Chtimes(m.path(dir+name), start, start.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findRuntimeFiles(t.Context(), m, start)
	if want := []string{m.path(dir + "nbserver-3.json"), m.path(dir + "jpserver-2.json")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
