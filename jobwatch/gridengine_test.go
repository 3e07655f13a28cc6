package jobwatch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// newGridEngine is a machine with these jobs and their records, and its Watcher. Its programs print the files
// list, details, verdict and account, and note in the file asked that each made a connection to the
// server. qacct makes none.
func newGridEngine(t *testing.T, jobs ...string) (*jobtest.Machine, *Watcher) {
	t.Helper()
	m := jobtest.NewMachine(t)
	m.Program(t, "qstat", `echo "qstat $*" >>"$HOME/asked"
case "$*" in *-j*) cat "$HOME/details";; *) sed "s/OWNER/$(id -un)/" "$HOME/list";; esac`)
	m.Program(t, "qalter", `echo "qalter $*" >>"$HOME/asked"; cat "$HOME/verdict"; ! grep -q "no suitable" "$HOME/verdict"`)
	m.Program(t, "qdel", `echo "qdel $*" >>"$HOME/asked"; echo 'denied: job "7" does not exist'; exit 1`)
	m.Program(t, "qacct", `test -s "$HOME/account" || { echo "error: job id $2 not found" >&2; exit 1; }; cat "$HOME/account"`)
	setJobs(t, m, jobs...)
	m.Write(t, "verdict", "verification: found suitable queue(s)\n")
	m.Write(t, "account", "")
	return m, watcher(m, gridEngineName)
}

// setJobs changes the jobs of Grid Engine, and their records.
func setJobs(t *testing.T, m *jobtest.Machine, jobs ...string) {
	t.Helper()
	var numbers []string
	for _, job := range jobs {
		if number := strings.Fields(job)[0]; !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	m.Write(t, "list", geList(jobs...))
	m.Write(t, "details", geDetails(numbers...))
}

// geList is a list of jobs, each as "ID STATE" or "ID STATE TASKS".
func geList(jobs ...string) string {
	out := "<?xml version='1.0'?>\n<job_info>\n<queue_info>\n"
	for _, job := range jobs {
		f := append(strings.Fields(job), "")
		group, at, queue := "pending", "JB_submission_time", ""
		if !strings.Contains(f[1], "q") {
			group, at, queue = "running", "JAT_start_time", "all.q@c07"
		}
		out += fmt.Sprintf(`<job_list state="%s"><JB_job_number>%s</JB_job_number><JB_name>n%[2]s</JB_name><JB_owner>OWNER</JB_owner><state>%s</state>`+
			`<%s>2026-03-02T08:00:00</%[4]s><queue_name>%s</queue_name><tasks>%s</tasks></job_list>`+"\n", group, f[0], f[1], at, queue, f[2])
	}
	return out + "</queue_info>\n<job_info>\n</job_info>\n</job_info>\n"
}

// geDetails are the records of jobs.
func geDetails(numbers ...string) string {
	out := "<?xml version='1.0'?>\n<detailed_job_info>\n<djob_info>\n"
	for _, n := range numbers {
		out += fmt.Sprintf("<element><JB_job_number>%s</JB_job_number><JB_job_name>n%[1]s</JB_job_name><JB_cwd>/w</JB_cwd><JB_submission_time>1772438400</JB_submission_time>"+
			"<JB_script_file>/h/.tunctl/tag%[1]s/job.sh</JB_script_file></element>\n", n)
	}
	return out + "</djob_info>\n</detailed_job_info>\n"
}

// geAccount is the record of a job that ended.
func geAccount(number string, exit int) string {
	return fmt.Sprintf("=====\nqname all.q\nhostname c07\njobname n%s\njobnumber %[1]s\ntaskid undefined\nstart_time Mon Mar  2 08:00:00 2026\nend_time Mon Mar  2 09:00:00 2026\nfailed 0\nexit_status %d\n", number, exit)
}

// asked are the connections since the last call.
func asked(t *testing.T, m *jobtest.Machine) []string {
	t.Helper()
	data, err := os.ReadFile(m.File("asked"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	m.Write(t, "asked", "")
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

func TestGridEngineConnections(t *testing.T) {
	t.Run("two a round, however many jobs are watched", func(t *testing.T) {
		m, w := newGridEngine(t, "1 r", "2 qw", "3 hqw", "4 qw", "5 r", "6 r 1", "6 qw 2-9:1")
		for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
			t.Cleanup(w.Watch(id).Close)
		}
		round := func(jobs scope) []string {
			t.Helper()
			query(t, w, jobs)
			got := asked(t, m)
			if len(got) > remote.DefaultLimits().Connections {
				t.Errorf("one round made %d connections: %q", len(got), got)
			}
			return got
		}
		for i, want := range []string{"qstat -j 1,2,3,4,5,6 -xml", "qalter -w v 2", "qalter -w v 4", "qalter -w v 6", "qstat -j 2,3,4,6 -xml"} {
			if got := round(watchedOnly); len(got) != 2 || got[1] != want {
				t.Errorf("round %d asked %q; want %q second", i+1, got, want)
			}
		}
		round(allJobs)
		m.Write(t, "list", geList("2 r", "3 r", "4 r", "5 r", "6 r 9"))
		round(allJobs) // in which a job is missing
		m.Write(t, "list", geList("1 r", "2 r", "3 r", "4 r", "5 r", "6 r 9"))
		round(watchedOnly) // in which the jobs are seen running
		if got := round(watchedOnly); len(got) != 1 {
			t.Errorf("for jobs that run, %q", got)
		}
	})
	t.Run("few for what a user asks", func(t *testing.T) {
		m, w := newGridEngine(t, "1 r", "2 qw")
		jobs, err := w.Jobs(t.Context())
		if got := asked(t, m); err != nil || len(jobs) != 2 || len(got) != 2 {
			t.Errorf("the list: %+v, %v, over %q", jobs, err, got)
		}
		job, found, err := w.Find(t.Context(), Query{Name: "n1"})
		if got := asked(t, m); err != nil || !found || job.Log != "/w/n1.o1" || len(got) > 2 {
			t.Errorf("by name: %+v, %v, %v, over %q", job, found, err, got)
		}
		job, found, err = w.Find(t.Context(), Query{Tag: "tag2"})
		if got := asked(t, m); err != nil || !found || job.ID != "2" || len(got) > 2 {
			t.Errorf("by tag: %+v, %v, %v, over %q", job, found, err, got)
		}
		if err := w.Extend(t.Context(), "1", time.Hour); !errors.Is(err, sched.ErrCannotExtend) {
			t.Errorf("extend: %v", err)
		}
		if got := asked(t, m); len(got) != 0 {
			t.Errorf("extend asked %q", got)
		}
		if err := w.Cancel(t.Context(), "7"); err != nil {
			t.Errorf("cancelling a job that is gone: %v", err)
		}
	})
}

func TestGridEngineEnd(t *testing.T) {
	t.Run("as the accounting says", func(t *testing.T) {
		m, w := newGridEngine(t, "7 r")
		x := w.Watch("7")
		defer x.Close()
		query(t, w, watchedOnly)
		m.Write(t, "list", geList())
		m.Write(t, "details", "<?xml version='1.0'?>\n<unknown_jobs >\n<ST_name>7</ST_name>\n</unknown_jobs>\n")
		if query(t, w, watchedOnly); x.Job().State != api.JobRunning {
			t.Errorf("before it is accounted for: %+v", x.Job())
		}
		m.Write(t, "account", geAccount("7", 3))
		query(t, w, watchedOnly)
		if job := x.Job(); job.State != api.JobFailed || job.Exit == nil || *job.Exit != 3 {
			t.Errorf("after: %+v", job)
		}
	})
	t.Run("of a task that nobody accounts for, while others of its array run", func(t *testing.T) {
		m, _ := newGridEngine(t, "6 r 1", "6 r 2")
		synctest.Test(t, func(t *testing.T) {
			w := watcher(m, gridEngineName)
			x := w.Watch("6.1")
			defer x.Close()
			query(t, w, watchedOnly)
			setJobs(t, m, "6 r 2")
			if query(t, w, watchedOnly); x.Job().State != api.JobRunning {
				t.Errorf("before the accounting can have it: %+v", x.Job())
			}
			time.Sleep(time.Minute)
			if query(t, w, watchedOnly); x.Job().State != api.JobFinished {
				t.Errorf("%+v", x.Job())
			}
		})
	})
	t.Run("an accounting that takes too long is read once", func(t *testing.T) {
		m, w := newGridEngine(t)
		m.Program(t, "qacct", `echo qacct >>"$HOME/asked"; exit 124`) // as timeout does
		for range 3 {
			if job, found, err := w.Detail(t.Context(), "7"); err != nil || found {
				t.Errorf("%+v, %v, %v", job, found, err)
			}
		}
		if got := strings.Count(strings.Join(asked(t, m), "\n"), "qacct"); got != 1 {
			t.Errorf("it was read %d times", got)
		}
	})
}

func TestGridEngineList(t *testing.T) {
	t.Run("from before a cancel does not count", func(t *testing.T) {
		m, w := newGridEngine(t, "7 r")
		if _, err := w.Jobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.Write(t, "list", geList())
		if err := w.Cancel(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		if job, known, err := w.Detail(t.Context(), "7"); err != nil || known {
			t.Errorf("%+v, %v, %v", job, known, err)
		}
	})
	t.Run("from before a submission does not count", func(t *testing.T) {
		m, w := newGridEngine(t)
		m.Program(t, "qsub", "echo 9")
		if _, err := w.Jobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		setJobs(t, m, "9 qw")
		if job, err := w.Submit(t.Context(), order("t")); err != nil || job.ID != "9" || job.Log != "/w/n9.o9" {
			t.Errorf("%+v, %v", job, err)
		}
	})
	t.Run("has no jobs of others", func(t *testing.T) {
		m, w := newGridEngine(t)
		m.Write(t, "list", strings.Replace(geList("2 r", "1 r"), "OWNER", "somebody", 1))
		if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) != 1 || jobs[0].ID != "1" {
			t.Errorf("%+v, %v", jobs, err)
		}
	})
	t.Run("of a server that hangs", func(t *testing.T) {
		m, w := newGridEngine(t)
		m.Program(t, "qstat", "exec sleep 3600")
		m.Program(t, "timeout", "exit 124") // at once, for every command that it is to limit
		if jobs, err := w.Jobs(t.Context()); !errors.Is(err, remote.ErrNoAnswer) {
			t.Errorf("%+v, %v", jobs, err)
		}
	})
	t.Run("with another job of the same number", func(t *testing.T) {
		m, w := newGridEngine(t, "1 r")
		if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) != 1 || !sched.HasTag(jobs[0], "tag1") {
			t.Fatalf("%+v, %v", jobs, err)
		}
		m.Write(t, "list", strings.ReplaceAll(geList("1 r"), "<JB_name>n1<", "<JB_name>production<"))
		m.Write(t, "details", geDetails())
		if jobs, err := w.host.known().List(t.Context(), w.host.sh); err != nil || len(jobs) != 1 || jobs[0].Name != "production" || jobs[0].Script != "" {
			t.Errorf("%+v, %v", jobs, err)
		}
	})
}

func TestGridEngineTag(t *testing.T) {
	t.Run("among more jobs than one answer describes", func(t *testing.T) {
		m, w := newGridEngine(t)
		var rows, numbers []string
		for i := range 50 + 2 {
			numbers = append(numbers, strconv.Itoa(i+1))
			rows = append(rows, numbers[i]+" qw")
		}
		m.Write(t, "list", geList(rows...))
		m.Write(t, "details", geDetails(numbers[2:]...)) // the newest
		if job, _, err := w.FindTag(t.Context(), Query{Tag: "tag1"}); !errors.Is(err, ErrIncomplete) {
			t.Errorf("%+v, %v", job, err)
		}
		asked(t, m)
		m.Write(t, "details", geDetails(numbers[:2]...))
		job, found, err := w.FindTag(t.Context(), Query{Tag: "tag1"})
		if got := asked(t, m); err != nil || !found || job.ID != "1" || !strings.Contains(strings.Join(got, "\n"), "-j 1,2,") {
			t.Errorf("%+v, %v, %v, over %q", job, found, err, got)
		}
	})
	t.Run("by qsub's answer in the private folder of the site", func(t *testing.T) {
		m, _ := newGridEngine(t)
		m.Write(t, ".profile", m.PathLine()+"export WORK=\"$HOME/work\"\n")
		m.Program(t, "qsub", "echo 9")
		w := NewWatcher(m, Options{Scheduler: gridEngineName, Limits: jobtest.QuickLimits(), Private: "${WORK:?}/.tunctl"})
		if _, err := w.Submit(t.Context(), order("mine")); err != nil {
			t.Fatal(err)
		}
		setJobs(t, m, "9 r") // with another tag, so that only qsub's answer tells
		if job, found, err := w.Find(t.Context(), Query{Tag: "mine"}); err != nil || !found || job.ID != "9" {
			t.Errorf("%+v, %v, %v", job, found, err)
		}
	})
}

func TestGridEngineVerdict(t *testing.T) {
	m, w := newGridEngine(t, "8 qw")
	m.Write(t, "verdict", "Job 8 has no permission for cluster queue \"staff.q\"\nJob 8 (-l gpu=8) cannot run at host \"c07\" because it offers only hc:gpu=2.000000\nverification: no suitable queues\n")
	x := w.Watch("8")
	defer x.Close()
	query(t, w, watchedOnly)
	query(t, w, watchedOnly)
	if job := x.Job(); job.State != api.JobQueued || job.Hint != "the job will never start as submitted: it asks for more of a resource, such as memory or GPUs, than any node has: ask for less" {
		t.Errorf("%+v", job)
	}
}

func TestGridEngineLog(t *testing.T) {
	m, w := newGridEngine(t, "7 r")
	if err := os.Mkdir(m.File("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.Write(t, "details", strings.Replace(geDetails("7"), "<JB_cwd>", "<JB_stdout_path_list><path_list><PN_path>~/logs</PN_path></path_list></JB_stdout_path_list>"+
		"<JB_env_list><job_sublist><VA_variable>__SGE_PREFIX__O_HOME</VA_variable><VA_value>"+m.File("")+"</VA_value></job_sublist></JB_env_list><JB_cwd>", 1))
	if job, _, err := w.Detail(t.Context(), "7"); err != nil || job.Log != m.File("logs/n7.o7") {
		t.Errorf("a folder of the home: %+v, %v", job, err)
	}
}
