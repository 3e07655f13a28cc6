package lab

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/jobtest"
	"tunctl/internal/dev/wait"

	"golang.org/x/crypto/ssh"
)

// form is one call of a real program: the command, and what it answered.
type form struct {
	name, command string
	answer
}

func readForm(t *testing.T, path string) form {
	t.Helper()
	c := jobtest.ParseCapture(path, []byte(readFile(t, path)))
	if c.Command == "" {
		t.Fatalf("%s: no command in its first line", path)
	}
	return form{c.Name, c.Command, answer{string(c.Result.Stdout), string(c.Result.Stderr), c.Result.Exit}}
}

func (f *form) check(t *testing.T, client *ssh.Client) {
	t.Helper()
	if got := run(t, client, f.command, ""); got != f.answer {
		t.Errorf("%s\n got %+v\nwant %+v", f.command, got, f.answer)
	}
}

// TestAnswers: they are those of the real programs.
func TestAnswers(t *testing.T) {
	for _, dialect := range []string{Slurm, PBS} {
		client := dial(t, practice(t, Options{Dialect: dialect}))
		paths, err := filepath.Glob(filepath.Join("testdata", dialect, "*.txt"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no forms for %s: %v", dialect, err)
		}
		for _, path := range paths {
			if strings.HasPrefix(filepath.Base(path), "fields_") {
				continue
			}
			f := readForm(t, path)
			t.Run(dialect+"/"+f.name, func(t *testing.T) { f.check(t, client) })
		}
	}
}

func capture(t *testing.T, path ...string) string {
	t.Helper()
	dir := os.Getenv("TUNCTL_CAPTURES")
	if dir == "" {
		t.Skip("TUNCTL_CAPTURES names no folder of real outputs")
	}
	return filepath.Join(append([]string{dir}, path...)...)
}

// The captures whose commands can be run here as they stand.
var sameCalls = map[string][]string{
	Slurm: {
		"err.bad_option", "err.bad_jobid.scancel", "err.bad_jobid.scontrol", "err.bad_jobid.squeue", "err.unknown_job.sacct",
		"err.unknown_job.scancel", "err.unknown_job.scontrol", "err.unknown_job.squeue", "err.unknown_job.squeue_o",
		"err.script_crlf", "err.script_dir", "err.script_empty", "err.script_missing", "err.script_no_shebang", "err.time_format",
		"err.bad_sacct_field", "err.invalid_partition", "empty.squeue", "empty.squeue_o", "version.sbatch", "version.squeue",
	},
	PBS: {
		"qdel_unknown", "qdel_bad_id", "qstat_unknown_job", "qstat_bad_id", "qstat_empty", "qstat_version", "qsub_missing_script",
		"qsub_bad_option", "qsub_bad_walltime", "qsub_unknown_queue", "qsub_bad_name", "qsub_crlf_script", "qsub_bad_directive",
	},
}

// TestAnswersCaptured: they equal the captures.
func TestAnswersCaptured(t *testing.T) {
	capture(t)
	for _, dialect := range []string{Slurm, PBS} {
		c := practice(t, Options{Dialect: dialect})
		client := dial(t, c)
		run(t, client, "echo true >sleep.sh", "")
		for _, name := range sameCalls[dialect] {
			f := readForm(t, capture(t, dialect, name+".txt"))
			f.stderr = regexp.MustCompile(`(\d)\.vm\b`).ReplaceAllString(f.stderr, "$1."+pbsServer)
			t.Run(dialect+"/"+name, func(t *testing.T) { f.check(t, client) })
		}
	}
}

// TestControllerDown: Slurm says that its controller is down.
func TestControllerDown(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	c.Controller(false)
	for _, f := range []form{
		{command: "sbatch --wrap true", answer: answer{"", "sbatch: error: Batch job submission failed: " + controllerGone + "\n", 1}},
		{command: "squeue --me", answer: answer{"", "slurm_load_jobs error: " + controllerGone + "\n", 1}},
		{command: "scontrol show job -o 1001", answer: answer{"", "slurm_load_jobs error: " + controllerGone + "\n", 1}},
		{command: "scancel 1001", answer: answer{"", "scancel: error: Kill job error on job id 1001: " + controllerGone + "\n", 8}},
	} {
		f.check(t, client)
	}
	if os.Getenv("TUNCTL_CAPTURES") != "" {
		for _, name := range []string{"sbatch", "scancel", "scontrol", "scontrol_ping", "squeue", "squeue_o"} {
			f := readForm(t, capture(t, Slurm, "ctld_down."+name+".txt"))
			f.stdout = strings.ReplaceAll(f.stdout, " at ctl ", " at "+loginNode+" ")
			f.check(t, client)
		}
	}
	c.Controller(true)
	if a := run(t, client, "squeue -h", ""); a != (answer{}) {
		t.Errorf("with its controller back: %+v", a)
	}
}

// TestServerDown: PBS says that its server is down.
func TestServerDown(t *testing.T) {
	c := practice(t, Options{Dialect: PBS})
	client := dial(t, c)
	c.Controller(false)
	for _, f := range []form{
		{command: "qstat", answer: answer{"", "Connection refused\nqstat: cannot connect to server practice (errno=15010)\n", 255}},
		{command: "echo true | qsub", answer: answer{"", "Connection refused\nqsub: cannot connect to server practice (errno=15010)\n", 162}},
		{command: "qdel 1001", answer: answer{"", "Connection refused\nCouldn't connect to cluster: practice\n", 162}},
	} {
		f.check(t, client)
	}
}

// stages are moments in a job's life, with the captures that show them in full.
type stage struct {
	name, capture string
	reached       func(Job) bool
}

var (
	slurmStages = []stage{
		{name: "pending", capture: "pending_priority.scontrol", reached: func(j Job) bool { return j.State == statePending }},
		{name: "running", capture: "running.scontrol", reached: func(j Job) bool { return j.State == stateRunning }},
		{name: "completed", capture: "completed.scontrol", reached: func(j Job) bool { return j.State == stateCompleted }},
	}
	pbsStages = []stage{
		{name: "queued", capture: "qstat_f_estimated", reached: func(j Job) bool { return j.State == statePending }},
		{name: "running", capture: "v23_qstat_f_running", reached: func(j Job) bool { return j.State == stateRunning }},
		{name: "finished", capture: "qstat_x_f_finished_exit0", reached: func(j Job) bool { return j.State == stateCompleted }},
	}
)

// TestJobFields: a job shown in full has the real fields.
func TestJobFields(t *testing.T) {
	t.Parallel()
	for dialect, stages := range map[string][]stage{Slurm: slurmStages, PBS: pbsStages} {
		submit, show := "sbatch --parsable -t 5 job.sh", "scontrol show job -o "
		if dialect == PBS {
			submit, show = "qsub -l walltime=00:05:00 -j oe job.sh", "qstat -x -f "
		}
		for _, s := range stages {
			t.Run(dialect+"/"+s.name, func(t *testing.T) {
				o := Options{Dialect: dialect}
				if s.name == "pending" || s.name == "queued" {
					o.QueueFor = time.Hour
				}
				c := practice(t, o)
				client := dial(t, c)
				script := "#!/bin/sh\nsleep 600\n"
				if s.name == "completed" || s.name == "finished" {
					script = "#!/bin/sh\ntrue\n"
				}
				id := strings.TrimSpace(run(t, client, "cat >job.sh; "+submit, script).stdout)
				wait.Until(t, s.name, func() bool { return s.reached(c.Jobs()[0]) })
				a := run(t, client, show+id, "")
				got := fieldsOf(a.stdout)

				want := strings.Fields(readFile(t, filepath.Join("testdata", dialect, "fields_"+s.name+".txt")))
				compareNames(t, "the sample", names(got), want)
				if os.Getenv("TUNCTL_CAPTURES") == "" {
					return
				}
				theirs := slices.DeleteFunc(fieldsOf(readForm(t, capture(t, dialect, s.capture+".txt")).stdout),
					func(f [2]string) bool { return f[0] == "Resource_List.mem" }) // that job asked for some
				compareNames(t, "the capture", names(got), names(theirs))
				compareShapes(t, got, theirs)
			})
		}
	}
}

var (
	slurmField = regexp.MustCompile(`(?:^| )([A-Za-z][A-Za-z_:/]*)=([^ ]*)`)
	pbsField   = regexp.MustCompile(`(?m)^    ([A-Za-z_.]+) = (.*)$`)
)

// fieldsOf takes apart what scontrol show job -o or qstat -f printed.
func fieldsOf(text string) [][2]string {
	pattern := slurmField
	if strings.HasPrefix(text, "Job Id: ") {
		pattern = pbsField
		text = strings.ReplaceAll(text, "\n\t", "")
	}
	var fields [][2]string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		fields = append(fields, [2]string{m[1], m[2]})
	}
	return fields
}

func names(fields [][2]string) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f[0]
	}
	return list
}

func compareNames(t *testing.T, with string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the fields differ from those of %s\n got %v\nwant %v", with, got, want)
	}
}

var digit = regexp.MustCompile(`\d`)

// compareShapes compares the form of times and durations, digit for digit.
func compareShapes(t *testing.T, got, want [][2]string) {
	t.Helper()
	shape := func(s string) string { return digit.ReplaceAllString(s, "9") }
	for i := range min(len(got), len(want)) {
		name := strings.ToLower(got[i][0])
		if !strings.Contains(name, "time") || name == "history_timestamp" || name == "lastschedeval" {
			continue
		}
		// A day of the week and a month are as long as any other.
		if g, w := shape(got[i][1]), shape(want[i][1]); len(g) != len(w) || strings.Count(g, "9") != strings.Count(w, "9") {
			t.Errorf("%s is %q, in the capture %q", got[i][0], got[i][1], want[i][1])
		}
	}
}

// TestFieldsAsked: squeue and sacct print what they are asked for.
func TestFieldsAsked(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	run(t, client, "cat >job.sh; mkdir work; sbatch -J 'a|b c' --gres=shm:1,gpu:a100:2 -D work -t 1-02:03:04 job.sh one", "#!/bin/sh\nsleep 600\n")
	wait.Until(t, "the job", func() bool { return c.Jobs()[0].State == stateRunning })
	started := strconv.FormatInt(c.Jobs()[0].Started.Unix(), 10)
	home := c.Home()
	for _, test := range []struct{ command, want string }{
		{"squeue -h -o '%i|%T|%t|%r|%N|%B|%l|%o|%j|%Z|%R'", "1001|RUNNING|R|None|cn01|cn01|1-02:03:04|" + home + "/job.sh|a|b c|" + home + "/work|cn01\n"},
		{"squeue -h -O 'JobID:;,Name:;,State:;,BatchHost:;,TimeLimit:;'", "1001;a|b c;RUNNING;cn01;1-02:03:04;\n"},
		{"squeue -h -O 'JobID,Name:.6,State:3'", "1001                 a|b cRUN\n"},
		{"SLURM_TIME_FORMAT=%s squeue -h -O StartTime:", started + "\n"},
		{"srun --jobid=1001 nvidia-smi -L", "GPU 0: T4 (pretended by the practice cluster)\nGPU 1: T4 (pretended by the practice cluster)\n"},
		{"nvidia-smi -L || true", "No devices were found: no job with GPUs runs this (practice cluster)\n"},
		{"srun --jobid=1001 sh -c 'echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE'", "0,1 0,1 2\n"},
		{"squeue -h -n nothing; squeue -h -t PD; squeue -h -j 1001,4242 -t R -o %i", "1001\n"},
		{"sacct -X -n -P -j 1001 -o JobID,JobName,State,ExitCode,NodeList,Partition", "1001|a|b c|RUNNING|0:0|cn01|practice\n"},
		{"sacct -n -P -o JobID,State", "1001|RUNNING\n1001.batch|RUNNING\n"},
		{"scontrol show job -o 1001 | grep -o 'Command=.*StdOut=[^ ]*'", "Command=" + home + "/job.sh one WorkDir=" + home + "/work StdErr=" +
			home + "/work/slurm-1001.out StdIn=/dev/null StdOut=" + home + "/work/slurm-1001.out\n"},
	} {
		if a := run(t, client, test.command, ""); a.stdout != test.want || a.stderr != "" || a.status != 0 {
			t.Errorf("%s\n got %+v\nwant %q", test.command, a, test.want)
		}
	}
	if table := run(t, client, "squeue", "").stdout; !regexp.MustCompile(`(?m)^              1001  practice    a\|b c  student  R +\d+:\d\d      1 cn01$`).MatchString(table) {
		t.Errorf("squeue's table is\n%s", table)
	}
}

// TestStepOutlivesSrun: a step outlives an srun that is killed.
func TestStepOutlivesSrun(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	run(t, client, "sbatch --wrap 'touch started; sleep 600'", "")
	wait.Until(t, "the job", func() bool { return exists(filepath.Join(c.Home(), "started")) })
	a := run(t, client, `mkfifo go said
		srun --jobid=1001 sh -c 'echo started >said; read -r word <go; echo $word >said' >/dev/null &
		read -r started <said
		kill -9 $!
		timeout 120 sh -c 'echo lives >go; cat said'`, "")
	if a.stdout != "lives\n" {
		t.Errorf("the step: %+v", a)
	}
	if a := run(t, client, "srun --jobid=1001 sh -c 'cat; exit 7'", "input"); a.stdout != "input" || a.status != 7 {
		t.Errorf("a step that ends: %+v", a)
	}
}

// TestQstatLines: qstat wraps its lines as the real one.
func TestQstatLines(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{
			"comment", "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 1 T: 8)",
			"    comment = Not Running: Insufficient amount of resource: ncpus (R: 4 A: 1 T:\n\t 8)",
		},
		{
			"Variable_List", "PBS_O_HOME=/home/users/someone,PBS_O_LANG=C.UTF-8,PBS_O_LOGNAME=someone,PBS_O_QUEUE=normal",
			"    Variable_List = PBS_O_HOME=/home/users/someone,PBS_O_LANG=C.UTF-8,\n\tPBS_O_LOGNAME=someone,PBS_O_QUEUE=normal",
		},
		{"queue", "normal", "    queue = normal"},
	} {
		if got := wrapAttribute(test.name, test.value); got != test.want {
			t.Errorf("%s\n got %q\nwant %q", test.name, got, test.want)
		}
	}
}
