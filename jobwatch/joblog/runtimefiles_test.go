package joblog

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/remote"
)

// shellRunner runs commands on this computer, in a home of its own.
type shellRunner struct{ home string }

func (r shellRunner) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = []string{"HOME=" + r.home, "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(string(stdin))
	out, err := cmd.Output()
	return remote.Result{Stdout: out}, err
}

// ownerFunc says by a function whose a process is.
type ownerFunc func(pid int) (bool, error)

func (f ownerFunc) OwnsProcess(_ context.Context, _ api.Job, pid int) (bool, error) { return f(pid) }

// TestRuntimeFilesOfTwoJobs: two jobs on one node do not open each other's notebook.
func TestRuntimeFilesOfTwoJobs(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	home := shellRunner{t.TempDir()}
	job := api.Job{Node: "cn01", Start: time.Now().Add(-time.Minute)}
	write := func(pid, port int) {
		t.Helper()
		file := fmt.Sprintf(`d="$HOME/.local/share/jupyter/runtime"; mkdir -p "$d"; cat >"$d/jpserver-%d.json"`, pid)
		text := fmt.Sprintf(`{"base_url": "/", "hostname": "0.0.0.0", "pid": %d, "port": %d, "secure": false, "sock": "", "token": "t%d", "url": "http://cn01:%d/"}`, pid, port, pid, port)
		if port == 0 {
			text = strings.Replace(text, `"sock": ""`, `"sock": "/h/s.sock"`, 1)
		}
		if _, err := home.Run(t.Context(), file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	reader := NewReader(remote.On(home), remote.DefaultLimits())
	write(100, 8888) // of the first job
	write(200, 8889) // of the second, and newer
	for pid, port := range map[int]int{100: 8888, 200: 8889} {
		files := reader.RuntimeFiles(home, job, ownerFunc(func(p int) (bool, error) { return p == pid, nil }))
		f, ok := files.Find(t.Context())
		if !ok || f.Port != port || f.Token.Reveal() != fmt.Sprintf("t%d", pid) {
			t.Errorf("the job of process %d opens port %d: %v", pid, f.Port, ok)
		}
	}
	unsure := reader.RuntimeFiles(home, job, ownerFunc(func(int) (bool, error) { return false, ErrOwnerUnknown }))
	if f, ok := unsure.Find(t.Context()); ok || unsure.Err() == nil {
		t.Errorf("nobody can tell whose it is, and port %d is opened", f.Port)
	}
	write(300, 0) // on a socket, and the newest
	mine := NewReader(remote.On(home), remote.DefaultLimits()).RuntimeFiles(home, job, ownerFunc(func(int) (bool, error) { return true, nil }))
	if f, ok := mine.find(t.Context(), detect.Finding{Found: true, Endpoint: api.Endpoint{Port: 8890}}, true); ok && f.Socket != "" {
		t.Errorf("a server on port 8890 is taken for the one on %s", f.Socket)
	}
	// What a log announces needs no other proof.
	announced := detect.Finding{Found: true, Endpoint: api.Endpoint{Port: 8888}}
	if f, ok := unsure.find(t.Context(), announced, false); !ok || f.Token.Reveal() != "t100" {
		t.Errorf("the announced port: %+v, %v", f, ok)
	}
}

// TestRuntimeFilesOwner: whose a file is is not asked again at once.
func TestRuntimeFilesOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, ErrOwnerUnknown
		files := &RuntimeFiles{owners: map[string]ownership{}, owner: ownerFunc(func(int) (bool, error) { asked++; return answer == nil, answer })}
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

// TestRuntimeFilesShared: runtime files are read by one command for all jobs of a host.
func TestRuntimeFilesShared(t *testing.T) {
	m := jobtest.NewMachine(t)
	dir := ".local/share/jupyter/runtime/"
	if err := os.MkdirAll(m.File(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for name, port := range map[string]int{
		"jpserver-1.json": 8881, "jpserver-2.json": 8882, "nbserver-3.json": 8883, "kernel-4.json": 8884, "jpserver-2-open.html": 8885, "jpserver-6.json": 0,
	} {
		text := fmt.Sprintf(`{"base_url": "/", "hostname": "0.0.0.0", "port": %d, "sock": "", "token": "t", "url": "http://cn01:%[1]d/"}`, port)
		if port == 0 {
			text = text[:20] // it is being written
		}
		m.Write(t, dir+name, text)
		if err := os.Chtimes(m.File(dir+name), start, start.Add(time.Duration(port-8882)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	limits := remote.DefaultLimits()
	limits.LogFirst = time.Hour
	reader := NewReader(remote.On(m), limits)
	want := map[int]int{ // the port that a job which starts so many minutes later finds
		-10: 8882, 0: 8882, 2: 0,
	}
	for minutes, port := range want {
		job := api.Job{State: api.JobRunning, Submitted: start.Add(time.Duration(minutes) * time.Minute)}
		f, ok := reader.RuntimeFiles(m, job, nil).find(t.Context(), detect.Finding{Endpoint: api.Endpoint{Port: 8882}}, false)
		if ok != (port != 0) || ok && f.Token.Reveal() != "t" {
			t.Errorf("%d minutes: %+v, %v", minutes, f, ok)
		}
	}
	if len(m.Scripts) != 1 {
		t.Errorf("%d commands", len(m.Scripts))
	}
	files, err := readRuntimeFiles(t.Context(), m)
	if err != nil || len(files) != 3 || files[0].path != m.File(dir+"nbserver-3.json") || files[0].endpoint.Port != 8883 {
		t.Errorf("%+v, %v", files, err)
	}
}
