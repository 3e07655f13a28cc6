package gridengine

import (
	"cmp"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// record is what qstat -j -xml prints about one job.
type record struct {
	number, name   string
	script         string // as on the command line of qsub
	cwd            string // "": the job runs in the home folder
	workdir, home  string // where it was submitted, and the user's home
	user           string
	stdout, stderr string // as requested
	merged         bool   // standard error goes to standard output
	submitted      time.Time
	notBefore      time.Time
	predecessors   bool              // it waits for other jobs
	errors         map[string]string // by task: why it is in error
	restarted      bool
	requests       []string // NAME=VALUE
	limit          time.Duration
	messages       []string // of the scheduler, those about this job first
}

// parseRecords reads the answer of qstat -j -xml. For a job that is not known it is another
// document, also with success; of several jobs, the unknown ones are left out.
func parseRecords(out string) []record {
	if strings.Contains(out, "<unknown_jobs") {
		return nil
	}
	doc, _ := parseXML(out) // what was read of an answer that was cut is valid
	var records []record
	for _, info := range doc.all("djob_info") {
		for _, e := range jobElements(info) {
			r := e.record()
			r.messages = doc.messages(r.number)
			records = append(records, r)
		}
	}
	return records
}

// jobElements are the jobs of an answer. Some versions print them without an element of their
// own: then each begins with its number.
func jobElements(info *element) []*element {
	var jobs []*element
	for _, c := range info.children {
		switch {
		case c.name == "JB_job_number":
			jobs = append(jobs, &element{children: []*element{c}})
		case c.child("JB_job_number") != "":
			jobs = append(jobs, c)
		case len(jobs) > 0:
			last := jobs[len(jobs)-1]
			last.children = append(last.children, c)
		}
	}
	return jobs
}

func (e *element) record() record {
	variables := map[string]string{}
	for _, v := range e.all("job_sublist") {
		variables[strings.TrimPrefix(v.child("VA_variable"), "__SGE_PREFIX__")] = v.child("VA_value")
	}
	r := record{
		number: e.value("JB_job_number"), name: e.value("JB_job_name"), script: e.value("JB_script_file"),
		cwd: e.value("JB_cwd"), user: e.value("JB_owner"),
		workdir: variables["O_WORKDIR"], home: variables["O_HOME"],
		merged:    e.value("JB_merge_stderr") == "true" || e.value("JB_merge_stderr") == "1",
		submitted: sched.ParseTime(e.value("JB_submission_time")), notBefore: sched.ParseTime(e.value("JB_execution_time")),
		predecessors: len(e.all("JB_jid_predecessor_list")) > 0,
		restarted:    e.value("JAT_job_restarted") != "" && e.value("JAT_job_restarted") != "0",
		errors:       map[string]string{},
	}
	r.stdout, r.stderr = e.path("JB_stdout_path_list"), e.path("JB_stderr_path_list")
	e.each(func(x *element) {
		switch name := x.child("CE_name"); name {
		case "":
		case "h_rt":
			r.limit = sched.ParseClockTime(x.child("CE_stringval"))
		default:
			r.requests = append(r.requests, name+"="+x.child("CE_stringval"))
		}
	})
	for _, list := range e.all("JB_ja_tasks") {
		task := ""
		list.each(func(x *element) {
			switch x.name {
			case "JAT_task_number":
				task = x.text
			case "QIM_message":
				r.errors[task] = cmp.Or(r.errors[task], causePrefix.ReplaceAllString(x.text, ""))
			}
		})
	}
	return r
}

// path is the first path of a list: there may be one for each host.
func (e *element) path(list string) string {
	for _, l := range e.all(list) {
		if p := l.value("PN_path"); p != "" {
			return p
		}
	}
	return ""
}

// messages are those of the scheduler that concern a job, the job's own first. Global ones are
// about queues, and the same for all jobs.
func (e *element) messages(number string) []string {
	var own, global []string
	e.each(func(x *element) {
		if x.child("MES_message") == "" {
			return
		}
		jobs := x.all("ULNG_value")
		about := func(j *element) bool { return j.text == number }
		for _, c := range x.children {
			switch {
			case c.name != "MES_message":
			case len(jobs) == 0:
				global = append(global, c.text)
			case slices.ContainsFunc(jobs, about):
				own = append(own, c.text)
			}
		}
	})
	return append(own, global...)
}

// causePrefix is the date, the ids and the word before the cause of an error.
var causePrefix = regexp.MustCompile(`^(?:\d\d/\d\d/\d{4} \d\d:\d\d:\d\d )?(?:\[\d+:\d+\]: )?(?:error: )?`)

// addTo adds to the job of a row what only the record has.
func (r *record) addTo(job *api.Job, row row) {
	job.Name, job.Script = r.name, sched.AbsolutePath(r.workdir, r.script)
	job.Submitted = cmp.Or(r.submitted, job.Submitted)
	job.Limit, job.Asks = int64(r.limit.Seconds()), strings.Join(r.requests, ",")
	if r.restarted {
		job.Restarts = max(job.Restarts, 1)
	}
	if job.State.Waiting() {
		job.ExpectedStart = r.notBefore
	}
	if job.State != api.JobHeld {
		return
	}
	switch cause := r.cause(row); {
	case strings.Contains(row.state, "E"):
		job.Reason = cmp.Or(cause, job.Reason)
		job.Hint = errorHint(cause)
	case r.predecessors:
		job.Hint = "waiting for another job to end"
	}
}

// cause is why the tasks of a row are in error.
func (r *record) cause(row row) string {
	if c := r.errors[row.tasks]; c != "" {
		return c
	}
	for _, c := range r.errors {
		return c // of a job without tasks, or one of several
	}
	return ""
}

// variables are those in the names of output files, and in the job's script. Empty ones are not
// known.
func (r *record) variables(row row) map[string]string {
	task := cmp.Or(row.tasks, "undefined")
	if basic.IsTaskRange(task) {
		task = ""
	}
	return map[string]string{
		"JOB_ID": r.number, "JOB_NAME": r.name, "TASK_ID": task, "SGE_TASK_ID": task, "HOSTNAME": row.node, "QUEUE": row.queue,
		"HOME": r.home, "SGE_O_HOME": r.home, "SGE_O_WORKDIR": r.workdir,
		"USER": r.user, "LOGNAME": r.user, "SGE_O_LOGNAME": r.user,
	}
}

// jobFiles is what the host's disk adds to a record. It is looked at once for each job.
type jobFiles struct {
	folders []string // those of the output paths that are folders
	lines   string   // the lines of the job's script that redirect output
}

// setLog sets the job's log, which Grid Engine writes while the job runs, and the other files
// that the job writes.
func (g scheduler) setLog(ctx context.Context, sh *remote.Shell, job *api.Job, row row) {
	k := g.known(row.number)
	if job.State.Ended() || k.record.number == "" {
		return
	}
	variables := k.record.variables(row)
	files := g.files(ctx, sh, job.Script, k, variables)
	job.Log = k.record.output(row, k.record.stdout, "o", files.folders, variables)
	if !k.record.merged {
		sched.AddLogs(job, k.record.output(row, k.record.stderr, "e", files.folders, variables))
	}
	own, others := sched.RedirectedLogs(files.lines, k.record.folder(), "JOB_ID", variables)
	sched.AddLogs(job, own)
	sched.AddLogs(job, others...)
}

// files looks at the job's script, and for folders among its output paths.
func (g scheduler) files(ctx context.Context, sh *remote.Shell, script string, k *knownJob, variables map[string]string) jobFiles {
	if k.files != nil {
		return *k.files
	}
	var asked []string
	for _, requested := range []string{k.record.stdout, k.record.stderr} {
		if file, known := k.record.path(requested, variables); known && requested != "" {
			asked = append(asked, file)
		}
	}
	res, err := sh.Plain(ctx, "for f in "+posixsh.Join(asked)+`; do test ! -d "$f" || printf '%s\n' "$f"; done
echo; f=`+posixsh.Quote(script)+"; test ! -f \"$f\" || "+sched.PrintRedirections)
	if err != nil {
		return jobFiles{}
	}
	folders, lines, _ := strings.Cut("\n"+string(res.Stdout), "\n\n")
	k.files = &jobFiles{folders: strings.Split(folders, "\n"), lines: lines}
	return *k.files
}

// folder is where the job runs.
func (r *record) folder() string {
	return cmp.Or(r.cwd, r.home)
}

// path is an output path as Grid Engine reads it, and whether all of it is known.
func (r *record) path(requested string, variables map[string]string) (string, bool) {
	file, known := sched.ExpandWord(requested, variables)
	if rest, ok := strings.CutPrefix(file, "~"); ok {
		user, rest, _ := strings.Cut(rest, "/")
		known = known && r.home != "" && (user == "" || user == r.user)
		file = path.Join(r.home, rest)
	}
	return sched.AbsolutePath(r.folder(), file), known
}

// output is the file for what was requested with -o or -e. For a folder, or without a request,
// it has the job's name, the letter, and the ids; "" if a part of the name is not known yet.
func (r *record) output(row row, requested, letter string, folders []string, variables map[string]string) string {
	file, known := r.path(requested, variables)
	if !known {
		return ""
	}
	switch {
	case requested != "" && !strings.HasSuffix(requested, "/") && !slices.Contains(folders, file):
		if strings.HasPrefix(file, "/dev/") {
			return ""
		}
		return file
	case basic.IsTaskRange(row.tasks):
		return ""
	}
	name := r.name + "." + letter + r.number
	if row.tasks != "" {
		name += "." + row.tasks
	}
	return path.Join(file, name)
}
