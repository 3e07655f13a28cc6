package agent

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// modelCluster is a scheduler in memory that answers the scripts of jobwatch, by a clock that
// may differ from the laptops'.
type modelCluster struct {
	skew    time.Duration // how far its clock is ahead
	limit   time.Duration // of its jobs
	dialect modelDialect
	checks  func(tag *modelTag) // is called when a submit command begins
	caller  *modelLaptop        // whose script is answered

	mu      sync.Mutex
	numbers int
	jobs    []*modelJob
	tags    map[string]*modelTag
	next    []modelSubmit // how the next submit commands behave; then they succeed at once
	queue   time.Duration // how long a job waits
	lists   []time.Time   // when all jobs were listed
	unknown []string      // scripts that it cannot run

	slowCancel time.Duration // how long a cancel takes
	slowEnd    time.Duration // of a job that is cancelled
}

// modelDialect is how one scheduler is asked and answers.
type modelDialect interface {
	name() string
	// answer runs a script, under the lock; false if it is not one of the dialect's.
	answer(c *modelCluster, script string) (out, errOut string, exit int, ok bool)
	// id is the whole id of a job, submitted what the submit command prints.
	id(number int) string
	submitted(j *modelJob) string
	// lost and refused are what it prints when the answer is lost, or when it refuses a job.
	lost() string
	refused() string
}

// modelSubmit is how a submit command behaves.
type modelSubmit struct {
	name     string
	answers  time.Duration // when the command ends
	lost     bool          // without the id
	refused  bool
	appears  time.Duration // when the job is made; negative: never
	cut      bool          // the connection is lost once the job is made
	notBegun bool          // the connection is lost before the command begins
	fails    bool          // the job has ended before the command has
}

// modelTag is the folder of a submission.
type modelTag struct {
	tag      string
	computer string // "": an older tunctl submitted it
	laptop   *modelLaptop
	at       time.Time
	answers  time.Time
	out      string
	errOut   string
	exit     int
	job      *modelJob
}

// modelJob is a job. Its times are by the laptops' clock.
type modelJob struct {
	id, name, script string
	tag              *modelTag // nil: the person's own
	submitted        time.Time // when it appears
	start            time.Time
	limit            time.Duration
	ended            time.Time    // before its limit; zero: not
	how              string       // it ended then
	endedBy          *modelLaptop // whose tunctl has cancelled it
	extended         bool
}

func (j *modelJob) end() time.Time {
	if !j.ended.IsZero() {
		return j.ended
	}
	return j.start.Add(j.limit)
}

func (j *modelJob) exists(now time.Time) bool { return !now.Before(j.submitted) }
func (j *modelJob) live(now time.Time) bool   { return j.exists(now) && now.Before(j.end()) }

// state is in Slurm's words.
func (j *modelJob) state(now time.Time) string {
	switch {
	case !j.live(now) && j.ended.IsZero():
		return "TIMEOUT"
	case !j.live(now):
		return j.how
	case !j.ended.IsZero():
		return "COMPLETING"
	case now.Before(j.start):
		return "PENDING"
	}
	return "RUNNING"
}

func (c *modelCluster) find(id string) *modelJob {
	for i := len(c.jobs) - 1; i >= 0; i-- { // the newest with that number
		if j := c.jobs[i]; j.id == id && j.exists(time.Now()) {
			return j
		}
	}
	return nil
}

func (c *modelCluster) setSlowCancel(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowCancel = d
}

// unix writes a time by the cluster's clock.
func (c *modelCluster) unix(t time.Time) string { return strconv.FormatInt(t.Add(c.skew).Unix(), 10) }

func (c *modelCluster) end(j *modelJob, how string, by *modelLaptop) {
	if now := time.Now(); j.live(now) && j.ended.IsZero() {
		j.ended, j.how, j.endedBy = now.Add(c.slowEnd), how, by
	}
}

func (c *modelCluster) extend(id, hours, minutes string) bool {
	j := c.find(id)
	if j == nil || !j.live(time.Now()) {
		return false
	}
	h, _ := strconv.Atoi(hours)
	m, _ := strconv.Atoi(minutes)
	j.limit, j.extended = time.Duration(h*60+m)*time.Minute, true
	return true
}

// run answers a script that a laptop sends.
func (c *modelCluster) run(l *modelLaptop, script string) (out, errOut string, exit int) {
	if strings.Contains(script, "tunctl_dir=$tunctl_root/") {
		return c.submit(l, script)
	}
	c.mu.Lock()
	slow := c.slowCancel
	c.mu.Unlock()
	if modelCancel.MatchString(script) || modelQdel.MatchString(script) {
		time.Sleep(slow)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clock := ""
	if strings.Contains(script, "tunctl.clock") {
		clock = "tunctl.clock " + c.unix(time.Now()) + "\n"
	}
	if m := modelFolder.FindStringSubmatch(script); m != nil && !strings.Contains(script, "tunctl.since") {
		if tag := c.tags[m[1]]; tag != nil && !time.Now().Before(tag.answers) {
			return tag.out, "", 0
		}
		return "", "", 0
	}
	if m := modelSubmitted.FindStringSubmatch(script); m != nil {
		for name, tag := range c.tags {
			out += fmt.Sprintf("\n%s %s\n%s\n%s\n\n%[1]s %[2]s/out\n%s\n", m[1], name, modelSession, tag.computer, tag.out)
		}
		return out, "", 0
	}
	if strings.Contains(script, "grep -E '>|tee '") { // what the job script redirects
		return "", "", 0
	}
	c.caller = l
	out, errOut, exit, ok := c.dialect.answer(c, script)
	if !ok {
		c.unknown = append(c.unknown, script)
		return "", "unknown", 1
	}
	return clock + out, errOut, exit
}

var (
	modelDir    = regexp.MustCompile(`tunctl_dir=\$tunctl_root/'?([\w.-]+)`)
	modelFolder = regexp.MustCompile(`cat "\$HOME"/\.tunctl/'?([\w.-]+?)'?/tunctl\.out`)
	// modelSubmitted is the script that lists the submissions.
	modelSubmitted = regexp.MustCompile(`(?s)in \*/tunctl\.session.*'\\n%s %s\\n' (tunctl-\w+) `)
	modelMark      = regexp.MustCompile(`'\\n%s %s\\n' (tunctl-\w+) "\$tunctl_i"`)
)

// submit runs the submit script: once for each tag, and it waits for the answer for 18 s.
func (c *modelCluster) submit(l *modelLaptop, script string) (out, errOut string, exit int) {
	name := modelDir.FindStringSubmatch(script)[1]
	c.mu.Lock()
	tag := c.tags[name]
	if tag == nil {
		how := modelSubmit{name: "at once"}
		if len(c.next) > 0 {
			how, c.next = c.next[0], c.next[1:]
		}
		if how.notBegun {
			c.mu.Unlock()
			l.host.restart()
			l.host.unreachable(nil)
			time.Sleep(time.Minute)
			return "", "", 1
		}
		tag = c.create(l, name, how)
		if how.cut {
			c.mu.Unlock()
			l.host.restart()
			l.host.unreachable(nil)
			return "", "", 1
		}
	}
	wait := time.Until(tag.answers)
	c.mu.Unlock()
	if wait > 18*time.Second {
		time.Sleep(18 * time.Second)
		return "", "", 10
	}
	time.Sleep(wait)
	mark := modelMark.FindStringSubmatch(script)[1]
	return fmt.Sprintf("\n%s exit\n%d\n\n%s out\n%s\n\n%s err\n%s\n\n%s note\n", mark, tag.exit, mark, tag.out, mark, tag.errOut, mark), "", 0
}

func (c *modelCluster) create(l *modelLaptop, name string, how modelSubmit) *modelTag {
	now := time.Now()
	tag := &modelTag{tag: name, laptop: l, at: now, answers: now.Add(how.answers)}
	c.tags[name] = tag
	c.checks(tag)
	if how.appears >= 0 && !how.refused {
		c.numbers++
		tag.job = &modelJob{
			id: c.dialect.id(c.numbers), name: "nb", script: "/home/alice/.tunctl/" + name + "/nb.sh", tag: tag,
			submitted: now.Add(how.appears), start: now.Add(how.appears + c.queue), limit: c.limit,
		}
		c.jobs = append(c.jobs, tag.job)
	}
	if how.fails {
		tag.job.start, tag.job.ended, tag.job.how = now, now.Add(time.Second), "FAILED"
	}
	switch {
	case how.refused:
		tag.exit, tag.errOut = 1, c.dialect.refused()
	case how.lost:
		tag.exit, tag.errOut = 1, c.dialect.lost()
	default:
		tag.out = c.dialect.submitted(tag.job)
	}
	return tag
}

// modelSlurm is Slurm with accounting. The controller forgets an ended job after five minutes.
type modelSlurm struct{}

func (modelSlurm) name() string                 { return "slurm" }
func (modelSlurm) id(n int) string              { return strconv.Itoa(n) }
func (modelSlurm) submitted(j *modelJob) string { return j.id }
func (modelSlurm) lost() string {
	return "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
}

func (modelSlurm) refused() string {
	return "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
}

var (
	modelShow   = regexp.MustCompile(`show job '?(\w+)'?`)
	modelCancel = regexp.MustCompile(`limit scancel '?(\w+)'?`)
	modelUpdate = regexp.MustCompile(`update JobId='?(\w+)'? TimeLimit=(\d+):(\d+):(\d+)`)
	modelAcct   = regexp.MustCompile(`-j '?(\w+)'?`)
)

const modelInvalid = "slurm_load_jobs error: Invalid job id specified"

func (s modelSlurm) answer(c *modelCluster, script string) (out, errOut string, exit int, ok bool) {
	now := time.Now()
	switch {
	case strings.Contains(script, "has sbatch squeue"):
		return "slurm\nalice\nhpc\nslurm\n", "", 0, true
	case strings.Contains(script, "limit squeue"):
		all := strings.Contains(script, "-t all")
		c.lists = append(c.lists, now)
		for _, j := range c.jobs {
			if j.live(now) || all && c.find(j.id) == j && now.Sub(j.end()) < 5*time.Minute {
				out += s.row(c, j, now)
			}
		}
		return out, "", 0, true
	case modelUpdate.MatchString(script):
		m := modelUpdate.FindStringSubmatch(script)
		if !c.extend(m[1], m[2], m[3]) {
			return "", modelInvalid, 1, true
		}
		return "", "", 0, true
	case modelShow.MatchString(script):
		j := c.find(modelShow.FindStringSubmatch(script)[1])
		if j == nil || !j.live(now) && now.Sub(j.end()) >= 5*time.Minute {
			return "", modelInvalid, 1, true
		}
		return s.record(c, j, now), "", 0, true
	case modelCancel.MatchString(script):
		j := c.find(modelCancel.FindStringSubmatch(script)[1])
		if j == nil {
			return "", "scancel: error: Kill job error on job id: Invalid job id specified", 1, true
		}
		c.end(j, "CANCELLED", c.caller)
		return "", "", 0, true
	case strings.Contains(script, "limit sacct"):
		m := modelAcct.FindStringSubmatch(script)
		for _, j := range c.jobs {
			if j.exists(now) && (m == nil || m[1] == j.id) {
				out += strings.Join([]string{j.id, j.state(now), "0:0", c.unix(j.submitted), c.unix(j.start), c.unix(j.end()), "", "normal", "", "", j.name}, "|") + "\n"
			}
		}
		return out, "", 0, true
	}
	return "", "", 0, false
}

// row is a job in the list. It runs on no known node: then nothing looks for a server.
func (modelSlurm) row(c *modelCluster, j *modelJob, now time.Time) string {
	fields := []string{
		j.id, j.id, "N/A", j.state(now), "normal", "", c.unix(j.submitted), c.unix(j.start), c.unix(j.end()), "0", "None", j.script, "", "1", "alice", "", "hpc", j.name,
	}
	return strings.Join(fields, "\x1f") + "\x1e\n"
}

func (modelSlurm) record(c *modelCluster, j *modelJob, now time.Time) string {
	return fmt.Sprintf("JobId=%s JobName=%s UserId=alice(1) GroupId=g(1) MCS_label=N/A JobState=%s Reason=None Dependency=(null) Restarts=0 ExitCode=0:0 SubmitTime=%s StartTime=%s EndTime=%s Partition=normal NodeList= BatchHost= Command=%s WorkDir=/home/alice StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power=\n",
		j.id, j.name, j.state(now), c.unix(j.submitted), c.unix(j.start), c.unix(j.end()), j.script)
}

// modelPBS is PBS with history.
type modelPBS struct{}

func (modelPBS) name() string                 { return "pbs" }
func (modelPBS) id(n int) string              { return strconv.Itoa(n) + ".pbs01" }
func (modelPBS) submitted(j *modelJob) string { return j.id }
func (modelPBS) lost() string                 { return "qsub: Connection reset by peer" }
func (modelPBS) refused() string              { return "qsub: Job violates queue and/or server resource limits" }

var (
	modelQstat  = regexp.MustCompile(`qstat (?:-x )?-f (?:-t )?([^)]*)\)`)
	modelQdel   = regexp.MustCompile(`limit qdel '?([\w.]+)`)
	modelQalter = regexp.MustCompile(`walltime=(\d+):(\d+):(\d+) '?([\w.]+)`)
	modelSince  = regexp.MustCompile(`\.tunctl/'?([\w.-]+?)'?/tunctl\.out`)
)

func (p modelPBS) answer(c *modelCluster, script string) (out, errOut string, exit int, ok bool) {
	now := time.Now()
	switch {
	case strings.Contains(script, "tunctl.since"):
		tag := c.tags[modelSince.FindStringSubmatch(script)[1]]
		if tag == nil {
			return "\ntunctl.since\n", "", 0, true
		}
		if !now.Before(tag.answers) {
			out = tag.out
		}
		return out + "\ntunctl.since\n" + tag.at.Add(c.skew).UTC().Format("200601021504") + "\n", "", 0, true
	case modelQstat.MatchString(script):
		for id := range strings.FieldsSeq(modelQstat.FindStringSubmatch(script)[1]) {
			id = strings.Trim(id, "'")
			if j := c.find(id); j != nil {
				out += p.record(c, j, now)
			} else {
				errOut, exit = "qstat: Unknown Job Id "+id, 153
			}
		}
		return out, errOut, exit, true
	case modelQdel.MatchString(script):
		j := c.find(modelQdel.FindStringSubmatch(script)[1])
		if j == nil || !j.live(now) {
			return "", "qdel: Unknown Job Id", 153, true
		}
		c.end(j, "CANCELLED", c.caller)
		return "", "", 0, true
	case modelQalter.MatchString(script):
		m := modelQalter.FindStringSubmatch(script)
		if !c.extend(m[4], m[1], m[2]) {
			return "", "qalter: Unknown Job Id", 153, true
		}
		return "", "", 0, true
	case strings.Contains(script, "\ntable"):
		return p.table(c, now), "", 0, true
	case strings.Contains(script, "limit qselect"):
		for _, j := range c.jobs {
			if j.live(now) {
				out += j.id + "\n"
			}
		}
		return out, "", 0, true
	}
	return "", "", 0, false
}

// table is all jobs that wait or run.
func (modelPBS) table(c *modelCluster, now time.Time) string {
	clock := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60) }
	out := "Job ID           Username Queue    Jobname      Time  S Time\n---------------- -------- -------- ------------ ----- - -----\n"
	for _, j := range c.jobs {
		state, ran := "R", clock(now.Sub(j.start))
		if now.Before(j.start) {
			state, ran = "Q", "--"
		}
		if j.live(now) {
			out += fmt.Sprintf("%-16s alice    normal   %-12s %s %s %s\n", j.id, j.name, clock(j.limit), state, ran)
		}
	}
	return out
}

func (modelPBS) record(c *modelCluster, j *modelJob, now time.Time) string {
	at := func(t time.Time) string { return t.Add(c.skew).UTC().Format(time.ANSIC) }
	state := map[string]string{"PENDING": "Q", "RUNNING": "R"}[j.state(now)]
	text := fmt.Sprintf("Job Id: %s\n    Job_Name = %s\n    Job_Owner = alice@hpc\n    queue = normal\n    ctime = %s\n    Submit_arguments = %s\n    Resource_List.walltime = %02d:%02d:00\n",
		j.id, j.name, at(j.submitted), j.script, int(j.limit.Hours()), int(j.limit.Minutes())%60)
	if !now.Before(j.start) {
		text += "    stime = " + at(j.start) + "\n"
	}
	if state == "" {
		state = "F"
		exit := map[string]string{"TIMEOUT": "-29", "CANCELLED": "271", "FAILED": "1", "COMPLETED": "0"}[j.state(now)]
		text += "    obittime = " + at(j.end()) + "\n    Exit_status = " + exit + "\n"
	}
	return text + "    job_state = " + state + "\n\n"
}

// modelGridEngine is Grid Engine, which writes how a job ended a little later.
type modelGridEngine struct{}

func (modelGridEngine) name() string                 { return "gridengine" }
func (modelGridEngine) id(n int) string              { return strconv.Itoa(n) }
func (modelGridEngine) submitted(j *modelJob) string { return j.id }
func (modelGridEngine) lost() string {
	return "error: failed receiving gdi request response for mid=1 (got syncron message receive timeout error)."
}

func (modelGridEngine) refused() string {
	return "Unable to run job: Job was rejected because job requests unknown queue \"nosuch.q\"\nExiting."
}

var (
	modelListed    = regexp.MustCompile(`qstat -u .* -r -xml [^\n]*\nprintf '\\n%s\\n' (tunctl-\w+)`)
	modelDescribed = regexp.MustCompile(`qstat -j '?([\d,]+)`)
	modelQacct     = regexp.MustCompile(`limit qacct -j '?(\d+)`)
)

func (g modelGridEngine) answer(c *modelCluster, script string) (out, errOut string, exit int, ok bool) {
	now := time.Now()
	if m := modelQdel.FindStringSubmatch(script); m != nil {
		j := c.find(m[1])
		if j == nil || !j.live(now) {
			return "denied: job \"" + m[1] + "\" does not exist", "", 1, true
		}
		c.end(j, "CANCELLED", c.caller)
		return "alice has registered the job " + m[1] + " for deletion", "", 0, true
	}
	if m := modelQacct.FindStringSubmatch(script); m != nil {
		for _, j := range c.jobs {
			if j.id == m[1] && j.end().After(j.start) && now.Sub(j.end()) > 15*time.Second {
				out += g.account(c, j, now)
			}
		}
		if out == "" {
			return "", "error: job id " + m[1] + " not found", 1, true
		}
		return out, "", 0, true
	}
	list, described := modelListed.FindStringSubmatch(script), modelDescribed.FindStringSubmatch(script)
	if list != nil {
		out = g.list(c, now) + "\n" + list[1] + "\n\nalice\n"
	}
	switch {
	case described != nil:
		out += g.records(c, described[1], now)
	case strings.Contains(script, "limit qalter -w v"):
		out += "verification: found suitable queue(s)\n"
	}
	return out, "", 0, list != nil || described != nil
}

// list is all jobs that wait or run, on no known node.
func (modelGridEngine) list(c *modelCluster, now time.Time) string {
	out := "<?xml version='1.0'?>\n<job_info>\n<queue_info>\n"
	for _, j := range c.jobs {
		if !j.live(now) {
			continue
		}
		group, letters, label, at := "running", "r", "JAT_start_time", j.start
		if now.Before(j.start) {
			group, letters, label, at = "pending", "qw", "JB_submission_time", j.submitted
		}
		out += fmt.Sprintf(`<job_list state="%s"><JB_job_number>%s</JB_job_number><JB_name>%s</JB_name><JB_owner>alice</JB_owner><state>%s</state><%s>%s</%[5]s><hard_request name="h_rt">%[7]d</hard_request></job_list>`+"\n",
			group, j.id, j.name, letters, label, at.Add(c.skew).UTC().Format("2006-01-02T15:04:05"), int(j.limit.Seconds()))
	}
	return out + "</queue_info>\n</job_info>\n"
}

// records describe jobs, which write no log.
func (modelGridEngine) records(c *modelCluster, ids string, now time.Time) string {
	out := ""
	for id := range strings.SplitSeq(ids, ",") {
		if j := c.find(id); j != nil && j.live(now) {
			out += fmt.Sprintf("<element><JB_job_number>%s</JB_job_number><JB_job_name>%s</JB_job_name><JB_submission_time>%s</JB_submission_time><JB_owner>alice</JB_owner><JB_merge_stderr>true</JB_merge_stderr><JB_stdout_path_list><path_list><PN_path>/dev/null</PN_path></path_list></JB_stdout_path_list><JB_script_file>%s</JB_script_file></element>\n",
				j.id, j.name, c.unix(j.submitted), j.script)
		}
	}
	if out == "" {
		return "<?xml version='1.0'?>\n<unknown_jobs >\n</unknown_jobs>\n"
	}
	return "<?xml version='1.0'?>\n<detailed_job_info>\n<djob_info>\n" + out + "</djob_info>\n</detailed_job_info>\n"
}

func (modelGridEngine) account(c *modelCluster, j *modelJob, now time.Time) string {
	at := func(t time.Time) string { return t.Add(c.skew).UTC().Format(time.ANSIC) }
	how := map[string]string{
		"TIMEOUT":   "failed 37 : qmaster enforced h_rt, h_cpu, or h_vmem limit\nexit_status 137",
		"CANCELLED": "failed 100 : assumedly after job\nexit_status 137", "FAILED": "failed 0\nexit_status 1", "COMPLETED": "failed 0\nexit_status 0",
	}[j.state(now)]
	return fmt.Sprintf("=====\nqname all.q\nowner alice\njobname %s\njobnumber %s\ntaskid undefined\nqsub_time %s\nstart_time %s\nend_time %s\n%s\nru_wallclock %d\ncategory -l h_rt=%d\n",
		j.name, j.id, at(j.submitted), at(j.start), at(j.end()), how, int(j.end().Sub(j.start).Seconds()), int(j.limit.Seconds()))
}
