package agent

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// modelSlurm is Slurm with accounting. The controller forgets an ended job after five minutes.
type modelSlurm struct{}

func (modelSlurm) name() string    { return "slurm" }
func (modelSlurm) id(n int) string { return strconv.Itoa(n) }
func (modelSlurm) options() string { return "#SBATCH --nodes=1 --time=01:00:00" }
func (modelSlurm) silent() string {
	return "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
}

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

func (modelSlurm) ask(script string) modelAsk {
	switch {
	case strings.Contains(script, "limit squeue"):
		return askList
	case modelShow.MatchString(script):
		return askJob
	case modelCancel.MatchString(script):
		return askCancel
	case strings.Contains(script, "limit sacct"):
		return askAccount
	}
	return askOther
}

func (modelSlurm) noJob(ask modelAsk, _ string) (out, errOut string, exit int) {
	if ask == askJob {
		return "", modelInvalid, 1
	}
	return "", "", 0
}

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
	case strings.Contains(script, "limit sacct") && !c.history:
		return "", "Slurm accounting storage is disabled", 1, true
	case strings.Contains(script, "limit sacct"):
		m := modelAcct.FindStringSubmatch(script)
		for _, j := range c.jobs {
			if j.exists(now) && (m == nil || m[1] == j.id) {
				out += strings.Join([]string{j.id, j.state(now), "0:0", c.unix(j.stamp()), c.unix(j.start), c.unix(j.end()), "", "normal", "", "", j.name}, "|") + "\n"
			}
		}
		return out, "", 0, true
	}
	return "", "", 0, false
}

// tasksOf are the parts of an array: the task that runs, and those that wait; else the job.
func (modelSlurm) tasksOf(j *modelJob, now time.Time) []modelTask {
	whole := modelTask{*j, "N/A"}
	if j.tasks == 0 || !j.live(now) {
		return []modelTask{whole}
	}
	running := min(j.tasks, max(1, 1+int(now.Sub(j.start)/j.limit)))
	one := modelTask{*j, strconv.Itoa(running)}
	one.tasks, one.start = 0, j.start.Add(time.Duration(running-1)*j.limit)
	list := []modelTask{one}
	if running < j.tasks && j.ended.IsZero() {
		rest := modelTask{*j, fmt.Sprintf("%d-%d", running+1, j.tasks+1)}
		rest.start = one.start.Add(j.limit)
		list = append(list, rest)
	}
	return list
}

type modelTask struct {
	modelJob
	task string
}

// until is the end of its time limit, or its end.
func (t modelTask) until() time.Time {
	if !t.ended.IsZero() {
		return t.ended
	}
	return t.start.Add(t.limit)
}

// row is a job in the list.
func (s modelSlurm) row(c *modelCluster, whole *modelJob, now time.Time) (out string) {
	for _, j := range s.tasksOf(whole, now) {
		fields := []string{
			j.id, j.id, j.task, j.state(now), "normal", j.on(now), c.unix(j.stamp()), c.unix(j.start), c.unix(j.until()), strconv.Itoa(j.restarts), "None", j.script, j.log(), "1", "alice", j.on(now), "hpc", j.name,
		}
		out += strings.Join(fields, "\x1f") + "\x1e\n"
	}
	return out
}

func (s modelSlurm) record(c *modelCluster, whole *modelJob, now time.Time) (out string) {
	for _, j := range s.tasksOf(whole, now) {
		array := ""
		if j.task != "N/A" {
			array = fmt.Sprintf("ArrayJobId=%s ArrayTaskId=%s ", j.id, j.task)
		}
		out += fmt.Sprintf("JobId=%s %sJobName=%s UserId=alice(1) GroupId=g(1) MCS_label=N/A JobState=%s Reason=None Dependency=(null) Restarts=%d ExitCode=0:0 SubmitTime=%s StartTime=%s EndTime=%s Partition=normal NodeList=%s BatchHost=%[9]s Command=%s WorkDir=/home/alice StdErr=%s StdIn=/dev/null StdOut=%[11]s Power=\n\n",
			j.id, array, j.name, j.state(now), j.restarts, c.unix(j.stamp()), c.unix(j.start), c.unix(j.until()), j.on(now), j.script, cmp.Or(j.log(), "/dev/null"))
	}
	return out
}

// modelPBS is PBS with history.
type modelPBS struct{}

func (modelPBS) name() string    { return "pbs" }
func (modelPBS) id(n int) string { return strconv.Itoa(n) + ".pbs01" }
func (modelPBS) options() string { return "#PBS -l select=1 -l walltime=01:00:00" }
func (modelPBS) silent() string {
	return "Connection refused\nqstat: cannot connect to server pbs01 (errno=111)"
}
func (modelPBS) lost() string    { return "qsub: Connection reset by peer" }
func (modelPBS) refused() string { return "qsub: Job violates queue and/or server resource limits" }

var (
	modelQstat  = regexp.MustCompile(`qstat (?:-x )?-f (?:-t )?([^)]*)\)`)
	modelQdel   = regexp.MustCompile(`limit qdel '?([\w.]+)`)
	modelQalter = regexp.MustCompile(`walltime=(\d+):(\d+):(\d+) '?([\w.]+)`)
	modelSince  = regexp.MustCompile(`\.tunctl/'?([\w.-]+?)'?/tunctl\.out`)
)

func (modelPBS) ask(script string) modelAsk {
	switch {
	case strings.Contains(script, "tunctl.since"):
		return askOther
	case modelQstat.MatchString(script):
		return askJob
	case modelQdel.MatchString(script):
		return askCancel
	case strings.Contains(script, "\ntable"), strings.Contains(script, "limit qselect"):
		return askList
	}
	return askOther
}

func (p modelPBS) noJob(ask modelAsk, script string) (out, errOut string, exit int) {
	if ask == askJob {
		return "", "qstat: Unknown Job Id", 153
	}
	if strings.Contains(script, "\ntable") {
		return p.table(&modelCluster{}, time.Now()), "", 0
	}
	return "", "", 0
}

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
			if j := c.find(id); j != nil && (c.history || j.live(now)) {
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
		if !j.ended.IsZero() {
			state = "E"
		}
		if j.live(now) {
			out += fmt.Sprintf("%-16s alice    normal   %-12s %s %s %s\n", j.id, j.name, clock(j.limit), state, ran)
		}
	}
	return out
}

func (modelPBS) record(c *modelCluster, j *modelJob, now time.Time) string {
	at := func(t time.Time) string { return t.Add(c.skew).UTC().Format(time.ANSIC) }
	state := map[string]string{"PENDING": "Q", "RUNNING": "R", "COMPLETING": "E"}[j.state(now)]
	text := fmt.Sprintf("Job Id: %s\n    Job_Name = %s\n    Job_Owner = alice@hpc\n    queue = normal\n    ctime = %s\n    Submit_arguments = %s\n    Resource_List.walltime = %02d:%02d:00\n",
		j.id, j.name, at(j.stamp()), j.script, int(j.limit.Hours()), int(j.limit.Minutes())%60)
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

func (modelGridEngine) name() string    { return "gridengine" }
func (modelGridEngine) id(n int) string { return strconv.Itoa(n) }
func (modelGridEngine) options() string { return "#$ -l h_rt=01:00:00" }
func (modelGridEngine) silent() string {
	return "error: commlib error: got select error (Connection refused)\nerror: unable to send message to qmaster using port 6444 on host \"qm\": got send error"
}

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

func (modelGridEngine) ask(script string) modelAsk {
	switch {
	case modelQdel.MatchString(script):
		return askCancel
	case modelQacct.MatchString(script):
		return askAccount
	case modelListed.MatchString(script):
		return askList
	case modelDescribed.MatchString(script):
		return askJob
	}
	return askOther
}

func (g modelGridEngine) noJob(ask modelAsk, script string) (out, errOut string, exit int) {
	switch ask {
	case askAccount:
		return "", "error: job id " + modelQacct.FindStringSubmatch(script)[1] + " not found", 1
	case askList:
		out = g.list(&modelCluster{}, time.Now()) + "\n" + modelListed.FindStringSubmatch(script)[1] + "\n\nalice\n"
	}
	if m := modelDescribed.FindStringSubmatch(script); m != nil {
		out += g.records(&modelCluster{}, m[1], time.Now())
	}
	return out, "", 0
}

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
		if out == "" || !c.history {
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
			group, letters, label, at = "pending", "qw", "JB_submission_time", j.stamp()
		}
		if !j.ended.IsZero() {
			letters = "d" + letters
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
				j.id, j.name, c.unix(j.stamp()), j.script)
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
		j.name, j.id, at(j.stamp()), at(j.start), at(j.end()), how, int(j.end().Sub(j.start).Seconds()), int(j.limit.Seconds()))
}
