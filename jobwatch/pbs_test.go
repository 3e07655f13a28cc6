package jobwatch

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
)

// fakePBS installs a PBS of a few lines on the machine.
func fakePBS(t *testing.T, m *jobtest.Machine) {
	t.Helper()
	m.Program(t, "qsub", `printf '%s\n' "$*" >>"$HOME/qsub.words"; echo 7.vm`)
	m.Program(t, "qselect", `echo 7.vm`)
	m.Program(t, "qstat", `keep=n; case $(tail -n 1 "$HOME/qsub.words") in *"-k oed"*) keep=oed;; esac
cat <<EOF
Job Id: 7.vm
    Job_Name = job.sh
    job_state = R
    queue = normal
    ctime = Sun Nov 15 00:13:40 2026
    stime = Sun Nov 15 00:13:42 2026
    exec_host = n1/0
    Keep_Files = $keep
    Output_Path = vm:$HOME/job.sh.o7
    Variable_List = PBS_O_HOME=$HOME,PBS_O_WORKDIR=$HOME
    Submit_arguments = $(tail -n 1 "$HOME/qsub.words")
EOF`)
	m.Program(t, "qdel", `echo "qdel: Job has finished $1" >&2; exit 35`)
}

// TestPBSSubmitWithoutKeep: a qsub that does not know where to keep output gets the job once.
func TestPBSSubmitWithoutKeep(t *testing.T) {
	m := jobtest.NewMachine(t)
	fakePBS(t, m)
	m.Program(t, "qsub", `printf '%s\n' "$*" >>"$HOME/qsub.words"
case $* in *"-k oed"*) printf 'qsub: illegal -k value\nusage: qsub [-a date_time]\n' >&2; exit 2;; esac
echo "a notice" >&2; echo 7.vm`)
	w := watcher(m, pbsName)
	job, err := w.Submit(t.Context(), Submission{Tag: "t", Content: []byte("#!/bin/sh\n"), Base: "job.sh", Args: []string{"-N", "a b"}})
	if words := strings.Fields(m.Read(t, "qsub.words")); err != nil || job.ID != "7.vm" || strings.Count(strings.Join(words, " "), "job.sh") != 2 {
		t.Errorf("%+v, %v, %q", job, err, words)
	}
	m.Program(t, "qsub", `printf '%s\n' "$*" >>"$HOME/refused.words"; echo "qsub: Unknown queue" >&2; exit 170`)
	_, err = w.Submit(t.Context(), Submission{Tag: "u", Content: []byte("#!/bin/sh\n"), Base: "job.sh"})
	if refused, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(refused.Hint, "-q") || strings.Count(m.Read(t, "refused.words"), "\n") != 1 {
		t.Errorf("another refusal: %v, after %q", err, m.Read(t, "refused.words"))
	}
}

// TestWatchHeldHint: the watch of a held job names the command that releases it.
func TestWatchHeldHint(t *testing.T) {
	x := &Watch{id: "7.srv", poll: &poll{host: &host{Options: Options{Host: "aspire"}}}, c: make(chan Report, 1)}
	x.update(newScheduler(pbsName), api.Job{ID: "7.srv", State: api.JobHeld, Hint: "held by you: release it with qrls"})
	if job := <-x.C(); job.Hint != "held by you: release it with `tunctl ssh aspire qrls 7.srv`" {
		t.Errorf("%q", job.Hint)
	}
	x = &Watch{id: "104", poll: &poll{host: &host{Options: Options{Host: "narval"}}}, c: make(chan Report, 1)}
	x.update(newScheduler(slurmName), api.Job{ID: "104", State: api.JobHeld, Hint: "held by you: release it with scontrol release"})
	if job := <-x.C(); job.Hint != "held by you: release it with `tunctl ssh narval scontrol release 104`" {
		t.Errorf("%q", job.Hint)
	}
}

// TestPBSHoldKind: the kind of a hold stays known with several sessions.
func TestPBSHoldKind(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		held := p.add("7.srv", "notebook", "Q")
		for _, id := range []string{"8.srv", "9.srv"} {
			p.add(id, "other", "R")
			defer w.Watch(id).Close()
		}
		x := w.Watch("7.srv")
		defer x.Close()
		time.Sleep(5 * time.Minute)
		p.set(held, "H", "Hold_Types", "s")
		for range 5 {
			time.Sleep(75 * time.Second)
			if job := x.Job(); job.State != api.JobHeld || !strings.HasPrefix(job.Hint, "held by an administrator") {
				t.Errorf("%s, %q", job.State, job.Hint)
			}
		}
	})
}

// TestPBSOutput: PBS output is kept readable unless the user says otherwise.
func TestPBSOutput(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		args   []string
		kept   bool
		log    string
	}{
		"nothing said":          {"#!/bin/sh\n#PBS -l walltime=1:00:00\n", nil, true, "job.sh.o7"},
		"-k in the script":      {"#!/bin/sh\n#PBS -j oe -k n\n", nil, false, ""},
		"-o in the words":       {"#!/bin/sh\n", []string{"-o", "x.log"}, true, "job.sh.o7"},
		"-o in the script":      {"#!/bin/sh\n#PBS -o x.log\n", nil, true, "job.sh.o7"},
		"redirected by itself":  {"#!/bin/sh\njupyter lab >> ${PBS_JOBNAME}.${PBS_JOBID}.log\n", nil, true, "job.sh.7.vm.log"},
		"-k only in a comment":  {"#!/bin/sh\n# PBS -k oed is nice\n", nil, true, "job.sh.o7"},
		"a name with -o inside": {"#!/bin/sh\n#PBS -N my-own\n", nil, true, "job.sh.o7"},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			m.Home = strings.ReplaceAll(m.Home, "ho me", "home") // qsub's words are not quoted
			if err := os.MkdirAll(m.Home, 0o755); err != nil {
				t.Fatal(err)
			}
			m.Write(t, ".profile", m.PathLine())
			fakePBS(t, m)
			w := watcher(m, pbsName)
			job, err := w.Submit(t.Context(), Submission{Tag: "t", Content: []byte(c.script), Base: "job.sh", Args: c.args})
			if err != nil {
				t.Fatal(err)
			}
			if kept := strings.HasPrefix(m.Read(t, "qsub.words"), "-k oed "); kept != c.kept {
				t.Errorf("words %q", m.Read(t, "qsub.words"))
			}
			log := ""
			if c.log != "" {
				log = m.File(c.log)
			}
			if job.ID != "7.vm" || job.Log != log || job.Script != m.File(".tunctl/t/job.sh") {
				t.Errorf("got %+v", job)
			}
			if said := job.Hint == api.HintSpooled; said != (c.log == "") {
				t.Errorf("hint %q", job.Hint)
			}
			found, ok, err := w.Find(t.Context(), Query{Tag: "t"})
			if err != nil || !ok || found.ID != "7.vm" {
				t.Errorf("found %+v, %v, %v", found, ok, err)
			}
			if err := w.Cancel(t.Context(), "7.vm"); err != nil {
				t.Errorf("cancelling what has finished: %v", err)
			}
		})
	}
}
