package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/dev/wait"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// TestSubmitOnce: a job is submitted once however often it is asked.
func TestSubmitOnce(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Write(t, "sbatch", "before() { sleep 0.2; }")
	s := Submission{Tag: "tag-1", Content: []byte("#!/bin/sh\necho hello\n"), Base: "job.sh", Session: "jupyter"}

	ids := make([]string, 6)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { // each a machine of its own with the same home
			job, err := slurmWatcher(m).Submit(t.Context(), s)
			if err != nil {
				t.Error(err)
			}
			ids[i] = job.ID
		})
	}
	all.Wait()
	job, err := slurmWatcher(m).Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if id != job.ID || id == "" {
			t.Errorf("ids differ: %q and %q", ids, job.ID)
		}
	}
	if n := len(jobtest.Submitted(t, m)); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if want := filepath.Join(m.Home, ".tunctl/tag-1/job.sh"); job.Script != want {
		t.Errorf("script %q, want %q", job.Script, want)
	}
	if want := filepath.Join(m.Home, "slurm-"+job.ID+".out"); job.Log != want || job.State != api.JobQueued {
		t.Errorf("job %+v, want log %q", job, want)
	}
	if got := m.Read(t, ".tunctl/tag-1/job.sh"); got != string(s.Content) {
		t.Errorf("the script became %q", got)
	}
}

// TestSubmitWords: words, folder and script arrive as they are.
func TestSubmitWords(t *testing.T) {
	m := jobtest.NewSlurm(t)
	if err := os.Mkdir(m.File("a $(touch x) 'b"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.Write(t, "it's a job.sh", "#!/bin/sh\r\n@ARGS@ $(touch y)\r\nexit 0\n")
	job, err := slurmWatcher(m).Submit(t.Context(), Submission{
		Tag: "t", Script: "~/it's a job.sh", Workdir: "~/a $(touch x) 'b", Args: []string{"--time=1", "--comment=a 'b' $(touch z) \"c\""},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(job.Hint, crlfNote) {
		t.Errorf("hint %q", job.Hint)
	}
	if got := m.Read(t, ".tunctl/t/it's a job.sh"); got != "#!/bin/sh\n@ARGS@ $(touch y)\nexit 0\n" {
		t.Errorf("script %q", got)
	}
	want := "--parsable --time=1 --comment=a 'b' $(touch z) \"c\" " + m.File(".tunctl/t/it's a job.sh") + "\n"
	if got := m.Read(t, "sbatch.words"); got != want {
		t.Errorf("words %q, want %q", got, want)
	}
	if got := m.Read(t, "sbatch.folder"); got != m.File("a $(touch x) 'b")+"\n" {
		t.Errorf("folder %q", got)
	}
	for _, name := range []string{"x", "y", "z"} {
		if found, _ := filepath.Glob(m.File("*/" + name)); found != nil {
			t.Errorf("a value was run as a command: %q", found)
		}
	}
}

// TestRefusalOfATag: a refusal is final for its tag and not for the next.
func TestRefusalOfATag(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Write(t, "sbatch", `before() { echo "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified" >&2; exit 1; }`)
	w := slurmWatcher(m)
	s := order("a")
	for range 2 {
		_, err := w.Submit(t.Context(), s)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodeSubmit || !strings.Contains(e.Message, "Invalid account or account/partition") || !strings.Contains(e.Hint, "--account") {
			t.Fatalf("got %#v", err)
		}
	}
	if n := strings.Count(m.Read(t, "sbatch.words"), "\n"); n != 1 {
		t.Errorf("sbatch was run %d times", n)
	}
	m.Write(t, "sbatch", "")
	s.Tag = "b"
	if _, err := w.Submit(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// TestSubmitAnswerLost: a lost answer is followed by a look.
func TestSubmitAnswerLost(t *testing.T) {
	const timedOut = `echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1`
	for name, c := range map[string]struct {
		sbatch string
		found  bool
	}{
		"the job exists":                  {`before() { accept; ` + timedOut + `; }`, true},
		"the job cannot be found":         {`before() { ` + timedOut + `; }`, false},
		"nothing that looks like an id":   {`before() { accept; echo thanks; exit 0; }`, true},
		"killed":                          {`before() { kill -9 $$; }`, false},
		"killed after it reached the end": {`before() { accept; kill -9 $$; }`, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewSlurm(t)
			m.Write(t, "sbatch", c.sbatch)
			job, err := slurmWatcher(m).Submit(t.Context(), order("a"))
			if c.found {
				if err != nil || job.ID == "" {
					t.Errorf("got %+v, %v", job, err)
				}
				return
			}
			doubt, ok := errors.AsType[*DoubtError](err)
			if !ok || doubt.Tag != "a" {
				t.Errorf("got %+v, %v", job, err)
			}
			if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeNeedsPerson || e.Hint == "" {
				t.Errorf("got %#v", err)
			}
		})
	}
}

// dying is a machine whose submit scripts run the command end once their submit command was started.
type dying struct {
	*jobtest.Machine
	end string
}

func (d dying) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	script := strings.Replace(string(stdin), "\nwhile test ! -f \"$tunctl_dir/tunctl.exit\"; do", "\n"+d.end+"\nwhile test ! -f \"$tunctl_dir/tunctl.exit\"; do", 1)
	return d.Machine.Run(ctx, command, []byte(script))
}

func TestRefusal(t *testing.T) {
	const (
		whole   = `while test ! -f "$tunctl_dir/tunctl.exit"; do sleep 0.01; done; `
		refused = `echo "sbatch: error: Batch job submission failed: Invalid qos" >&2; exit 1; `
	)
	for name, c := range map[string]struct {
		end, sbatch, squeue string
		want                string // the beginning of the error; "" for a job
	}{
		"the submit shell is killed":             {end: whole + `sh -c 'kill -9 $PPID'`},
		"it cannot fork":                         {end: whole + `exit 2`},
		"it ends with another status":            {end: whole + `exit 254`},
		"the login shell is killed":              {end: whole + `kill -9 $$`},
		"it is killed and the job appears later": {end: `exit 137`, sbatch: `before() { while test ! -f "$HOME/go"; do sleep 0.01; done; }`, want: "tunctl cannot tell whether the job was submitted: the commands that submit it were ended with status 137"},
		"the id and status 1":                    {sbatch: `before() { accept; echo "Submitted batch job $id"; exit 1; }`},
		"the id, status 1 and a silent queue":    {sbatch: `before() { accept; echo "$id;practice"; exit 1; }`, squeue: "Socket timed out"},
		"a job, status 1 and no id":              {sbatch: `before() { accept; ` + refused + `}`},
		"a refusal that cannot be checked":       {sbatch: `before() { ` + refused + `}`, squeue: "Socket timed out", want: "tunctl cannot tell whether the job was submitted: sbatch: error: Batch job submission failed: Invalid qos"},
		"a refusal that is proven":               {sbatch: `before() { ` + refused + `}`, want: "the scheduler did not accept the job: Batch job submission failed: Invalid qos"},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewSlurm(t)
			m.Write(t, "sbatch", c.sbatch)
			if c.squeue != "" {
				m.Write(t, "squeue.fails", c.squeue)
			}
			job, err := slurmWatcher(dying{m, c.end}).Submit(t.Context(), order("a"))
			m.Write(t, "go", "")
			if c.end == "exit 137" {
				wait.Until(t, "sbatch ends, which nobody waited for", func() bool {
					_, err := os.Stat(m.File(".tunctl/a/tunctl.exit"))
					return err == nil
				})
			}
			if c.want == "" {
				if err != nil || !strings.HasPrefix(jobtest.Submitted(t, m)[0], job.ID+"@") {
					t.Errorf("%+v, %v; submitted: %q", job, err, jobtest.Submitted(t, m))
				}
			} else if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%+v, %v, want %q", job, err, c.want)
			}
		})
	}
}

func TestUnreachedServer(t *testing.T) {
	for name, c := range map[string]struct{ scheduler, program, says string }{
		"Slurm":       {slurmName, "sbatch", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"},
		"PBS":         {pbsName, "qsub", "Connection refused\nqsub: cannot connect to server vm (errno=15010)"},
		"Grid Engine": {gridEngineName, "qsub", "error: commlib error: got select error (Connection refused)\nUnable to run job: unable to send message to qmaster"},
	} {
		t.Run(name+" gets the job later, once", func(t *testing.T) {
			m := jobtest.NewSlurm(t)
			w := watcher(m, c.scheduler)
			s := order("a")
			m.Program(t, c.program, "echo '"+c.says+"' >&2; exit 162")
			for range 2 {
				if _, err := w.Submit(t.Context(), s); !errors.Is(err, remote.ErrNoAnswer) {
					t.Fatalf("the server is down: %v", err)
				}
			}
			m.Program(t, c.program, `echo . >>"$HOME/accepted"; echo 7`)
			for range 2 {
				if job, err := w.Submit(t.Context(), s); err != nil || job.ID != "7" {
					t.Errorf("the server is back: %+v, %v", job, err)
				}
			}
			if got := m.Read(t, "accepted"); got != ".\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestSubmitAnswerLostOfAnArray: an array whose answer was lost is followed as a whole.
func TestSubmitAnswerLostOfAnArray(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	m.Program(t, "sbatch", `echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1`)
	m.Write(t, "queue", strings.Replace(listed("54", "54", "1-4", "PENDING", "", "lab", "chain"), "/h/run.sh", "/h/.tunctl/a/job.sh", 1))
	job, err := slurmWatcher(m).Submit(t.Context(), order("a"))
	if err != nil || job.ID != "54" {
		t.Errorf("%+v, %v", job, err)
	}
}

// TestSubmitInvalid: what cannot be submitted is said.
func TestSubmitInvalid(t *testing.T) {
	m := jobtest.NewSlurm(t)
	content := []byte("#!/bin/sh\n")
	for name, s := range map[string]Submission{
		"no such folder":   {Tag: "a", Content: content, Base: "x", Workdir: "~/nowhere"},
		"no such script":   {Tag: "b", Script: "~/nowhere.sh"},
		"no script at all": {Tag: "c", Base: "x"},
		"a tag with /":     {Tag: "../x", Content: content, Base: "x"},
		"a base with /":    {Tag: "d", Content: content, Base: "../x"},
		"not text":         {Tag: "e", Content: []byte("a\x00b"), Base: "x"},
		"our own name":     {Tag: "f", Content: content, Base: "tunctl.lock"},
	} {
		_, err := slurmWatcher(m).Submit(t.Context(), s)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeSubmit {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(jobtest.Submitted(t, m)); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// TestTidying has folders that were last written days ago, when another job is submitted.
func TestTidying(t *testing.T) {
	m := jobtest.NewSlurm(t)
	node, err := exec.Command("uname", "-n").Output()
	if err != nil {
		t.Fatal(err)
	}
	process := func(number int, node string) string {
		return fmt.Sprintf("%d 1 2 %s\n", number, strings.TrimSpace(node))
	}
	const gone = 99999999
	here, there, killed := process(os.Getpid(), string(node)), process(gone, "another"), process(gone, string(node))
	folders := []struct {
		name  string
		days  int
		files map[string]string
		fresh string // a file that was written just now
		stays bool
	}{
		{"submission", 40, map[string]string{"tunctl.lock/x": ""}, "", false},
		{"of a process that still writes", 40, map[string]string{"tunctl.lock/x": ""}, "tunctl.log", true},
		{"not ours", 40, nil, "", true},
		{"of a quiet process", 40, map[string]string{"tunctl.lock/x": "", "tunctl.pid": here}, "", true},
		{"of a process elsewhere", 40, map[string]string{"tunctl.lock/x": "", "tunctl.pid": there}, "", true},
		{"of a killed process", 40, map[string]string{"tunctl.lock/x": "", "tunctl.pid": killed}, "", false},
		{"of an ended process, whose number is another's now", 40, map[string]string{"tunctl.lock/x": "", "tunctl.pid": here, "tunctl.status": "0 2\n"}, "", false},
		{"job.99999999", 100, map[string]string{"password": "old"}, "", false},
		{"job.8.server", 100, map[string]string{"password": "old"}, "", false},
		{"job.9", 100, map[string]string{"password": "old"}, "server.json", true}, // it runs
		{"job.10", 40, map[string]string{"password": "old"}, "", true},
		{"job.mine", 100, map[string]string{"password": "old"}, "", true},
		{fmt.Sprint("job.", os.Getpid()), 100, map[string]string{"password": "old"}, "", true}, // a plain process
		{"logs/new", 80, nil, "", true},
		{"logs/old", 100, nil, "", false},
	}
	age := func(path string, days int) {
		at := time.Now().AddDate(0, 0, -days)
		set := func(file string, _ os.DirEntry, err error) error { return errors.Join(err, os.Chtimes(file, at, at)) }
		if err := filepath.WalkDir(m.File(path), set); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range folders {
		folder := ".tunctl/" + c.name
		if strings.HasPrefix(c.name, "logs/") {
			c.files, folder = map[string]string{filepath.Base(c.name): ""}, ".tunctl/logs"
		}
		for name, text := range c.files {
			if err := os.MkdirAll(filepath.Dir(m.File(folder+"/"+name)), 0o700); err != nil {
				t.Fatal(err)
			}
			m.Write(t, folder+"/"+name, text)
		}
		if err := os.MkdirAll(m.File(folder), 0o700); err != nil {
			t.Fatal(err)
		}
		age(".tunctl/"+c.name, c.days)
		if c.fresh != "" {
			m.Write(t, folder+"/"+c.fresh, "")
			at := time.Now().AddDate(0, 0, -c.days)
			if err := os.Chtimes(m.File(folder), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Mkdir(m.File("elsewhere"), 0o700), os.Symlink(m.File("elsewhere"), m.File(".tunctl/job.11"))); err != nil {
		t.Fatal(err)
	}
	age("elsewhere", 100)
	next := order("new")
	next.Logs = `"$HOME/.tunctl/logs"`
	if _, err := slurmWatcher(m).Submit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for _, c := range folders {
		if _, err := os.Stat(m.File(".tunctl/" + c.name)); (err == nil) != c.stays {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, name := range []string{"new", "job.11"} {
		if _, err := os.Stat(m.File(".tunctl/" + name)); err != nil {
			t.Error(err)
		}
	}
}

// TestSubmitOtherNumber: a number that is not the id of our job is not taken.
func TestSubmitOtherNumber(t *testing.T) {
	for name, sbatch := range map[string]string{
		"a number after the sentence": `before() { accept; echo "Submitted batch job $id"; echo 12; exit; }`,
		"no such job":                 `before() { accept; echo 12; exit; }`,
		"another job of the person's": `before() { accept; echo "12 /h/other.sh" >>"$HOME/submitted"; echo 12; exit; }`,
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewSlurm(t)
			m.Write(t, "sbatch", sbatch)
			job, err := slurmWatcher(m).Submit(t.Context(), order("a"))
			want, _, _ := strings.Cut(jobtest.Submitted(t, m)[0], "@")
			if err != nil || job.ID != want || !sched.HasTag(job, "a") {
				t.Errorf("%+v, %v; want job %s", job, err, want)
			}
		})
	}
	m := jobtest.NewSlurm(t)
	m.Write(t, "sbatch", `before() { script=/spool/copy.sh; }`)
	if job, err := slurmWatcher(m).Submit(t.Context(), order("a")); err != nil || !strings.HasPrefix(jobtest.Submitted(t, m)[0], job.ID+"@") {
		t.Errorf("a wrapper that submits a copy: %+v, %v", job, err)
	}
}

// TestPrivateFolder: our files go to the private folder of the site.
func TestPrivateFolder(t *testing.T) {
	m := jobtest.NewSlurm(t)
	work := filepath.Join(filepath.Dir(m.Home), "work")
	m.Write(t, ".profile", m.PathLine()+"export WORK="+posixsh.Quote(work)+"\n")
	w := NewWatcher(m, Options{Scheduler: slurmName, Limits: jobtest.QuickLimits(), Private: "${WORK:?}/$(id -un)/.tunctl"})
	s := Submission{Tag: "tag-1", Content: []byte("#!/bin/sh\n"), Base: "job.sh", Session: "jupyter"}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(work, me.Username, ".tunctl")
	if err := os.MkdirAll(root, 0o755); err != nil { // it was there, open to others
		t.Fatal(err)
	}
	job, err := w.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if job.Script != filepath.Join(root, "tag-1/job.sh") {
		t.Errorf("script %q", job.Script)
	}
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(m.File(".tunctl")); err == nil {
		t.Error("something was written to the home folder")
	}
	if again, err := w.Submit(t.Context(), s); err != nil || again.ID != job.ID || len(jobtest.Submitted(t, m)) != 1 {
		t.Errorf("the same tag again: %+v, %v", again, err)
	}
	if found, ok, err := w.Find(t.Context(), Query{Tag: "tag-1"}); err != nil || !ok || found.ID != job.ID {
		t.Errorf("Find: %+v, %v, %v", found, ok, err)
	}
}

// TestSubmitLogFolder: the log of a job that we wrote goes to a folder of its own.
func TestSubmitLogFolder(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Program(t, "qsub", `printf '%s\n' "$*" >>"$HOME/sbatch.words"; echo 7`)
	logs := m.File(".tunctl/logs")
	for i, c := range []struct {
		scheduler string
		args      []string
		want      string
		made      bool
	}{
		{slurmName, []string{"--mem=1G"}, "--parsable --output=" + logs + "/%x.%j.log --mem=1G ", true},
		{slurmName, []string{"-o", "mine"}, "--parsable -o mine ", false},
		{pbsName, nil, "-k oed -o " + logs + "/ ", true},
		{gridEngineName, nil, "-terse -o " + logs + "/$JOB_NAME.$JOB_ID.log ", true},
		{gridEngineName, []string{"-j", "y", "-o", "mine"}, "-terse -j y -o mine ", false},
	} {
		if err := os.RemoveAll(logs); err != nil {
			t.Fatal(err)
		}
		w := watcher(m, c.scheduler)
		s := Submission{Tag: fmt.Sprint("t", i), Content: []byte("#!/bin/sh\n"), Base: "x", Args: c.args, Logs: `"$HOME/.tunctl/logs"`}
		if _, err := w.Submit(t.Context(), s); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		words := strings.Split(strings.TrimSpace(m.Read(t, "sbatch.words")), "\n")
		if got := words[len(words)-1]; !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
		if info, err := os.Stat(logs); (err == nil) != c.made || err == nil && info.Mode().Perm() != 0o700 {
			t.Errorf("%+v: the folder is %v, %v", c, info, err)
		}
	}
	if err := errors.Join(os.RemoveAll(logs), os.WriteFile(logs, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := Submission{Tag: "u", Content: []byte("#!/bin/sh\n"), Base: "x", Logs: `"$HOME/.tunctl/logs"`}
	if _, err := slurmWatcher(m).Submit(t.Context(), s); err == nil || !strings.Contains(err.Error(), "cannot write to "+logs+": mkdir: ") {
		t.Errorf("a folder that cannot be made: %v", err)
	}
}

// TestPrivateFolderRefused: a private folder that is not ours or not known is refused.
func TestPrivateFolderRefused(t *testing.T) {
	m := jobtest.NewSlurm(t)
	s := order("t")
	submit := func(private string) string {
		_, err := NewWatcher(m, Options{Scheduler: slurmName, Limits: jobtest.QuickLimits(), Private: private}).Submit(t.Context(), s)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if got := submit("${NO_SUCH_VARIABLE:?}/.tunctl"); !strings.Contains(got, "NO_SUCH_VARIABLE") {
		t.Errorf("a variable that is not set: %q", got)
	}
	if os.Getuid() == 0 { // only root can make another user's folder
		theirs := filepath.Join(filepath.Dir(m.Home), "theirs/.tunctl")
		if err := errors.Join(os.MkdirAll(theirs, 0o777), os.Chown(theirs, 4242, 4242)); err != nil {
			t.Fatal(err)
		}
		if got := submit(theirs); !strings.Contains(got, "belongs to another user") {
			t.Errorf("another user's folder: %q", got)
		}
		link := filepath.Join(filepath.Dir(m.Home), "link/.tunctl")
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o777), os.Symlink(m.Home, link), os.Lchown(link, 4242, 4242)); err != nil {
			t.Fatal(err)
		}
		if got := submit(link); !strings.Contains(got, "belongs to another user") {
			t.Errorf("another user's link to a folder of ours: %q", got)
		}
	}
	if n := len(jobtest.Submitted(t, m)); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// TestPrivateFolderWithoutScheduler: a machine without a scheduler keeps its jobs in the private folder.
func TestPrivateFolderWithoutScheduler(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Write(t, ".profile", m.PathLine()+"export WORK="+posixsh.Quote(filepath.Join(filepath.Dir(m.Home), "work"))+"\n")
	w := NewWatcher(m, Options{Scheduler: noScheduler, Limits: jobtest.QuickLimits(), Private: "${WORK:?}/.tunctl"})
	job, err := w.Submit(t.Context(), Submission{Tag: "t", Content: []byte("#!/bin/sh\nsleep 600\n"), Base: "job.sh"})
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) != 1 || jobs[0].ID != job.ID {
		t.Errorf("%+v, %v", jobs, err)
	}
	if err := w.Cancel(t.Context(), job.ID); err != nil {
		t.Error(err)
	}
	if ended, found, err := w.Detail(t.Context(), job.ID); err != nil || !found || ended.State == api.JobRunning {
		t.Errorf("%+v, %v, %v", ended, found, err)
	}
}

// TestSubmitFullDisk: a full disk is named as the cause.
func TestSubmitFullDisk(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Program(t, "sed", `echo "sed: couldn't flush stdout: Disk quota exceeded" >&2; exit 4`)
	m.Write(t, "job.sh", "#!/bin/sh\n")
	_, err := slurmWatcher(m).Submit(t.Context(), Submission{Tag: "t", Script: "~/job.sh"})
	refused, ok := errors.AsType[*api.Error](err)
	if !ok || !strings.HasSuffix(refused.Message, ".tunctl: sed: couldn't flush stdout: Disk quota exceeded") || !strings.Contains(refused.Message, "cannot copy the job script") ||
		refused.Hint != sched.DiskFullHint {
		t.Errorf("%#v", err)
	}
	_, err = slurmWatcher(m).Submit(t.Context(), Submission{Tag: "u", Content: []byte("#!/bin/sh\n"), Base: "job.sh", Workdir: "~/none"})
	if err == nil || !strings.Contains(err.Error(), "cannot enter the working directory: ") || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a missing folder: %v", err)
	}
}
