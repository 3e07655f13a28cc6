package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

var qstatOptions = optionsOf(
	"f", "x", "H", "w", "a", "i", "r", "n", "s", "1", "t", "J", "p", "u=", "F=", "D=", "E", "B", "Q", "T",
)

func qstat(_ context.Context, c *call) int {
	if slices.Contains(c.args, "--version") {
		c.printf("%s\n", pbsVersion)
		return 0
	}
	options, ids, err := qstatOptions.parse(c.args, true)
	if err != nil {
		return c.failf(2, "qstat: %v", err)
	}
	if c.c.batch.isDown() {
		return c.failf(255, pbsNoReach, "qstat")
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(options, func(x option) bool { return slices.Contains(names, x.name) })
	}
	switch {
	case has("B") && has("f"):
		c.printf("Server: %s\n    server_state = Active\n    default_queue = %s\n    %s\n\n", pbsServer, pbsQueue, pbsVersion)
		return 0
	case has("Q") && has("f"):
		c.printf("Queue: %s\n    queue_type = Execution\n    resources_max.walltime = 08:00:00\n    enabled = True\n    started = True\n\n", pbsQueue)
		return 0
	case has("F", "B", "Q"):
		return c.failf(2, "qstat: the practice cluster prints jobs as text only")
	}
	if has("x", "H") && !c.c.batch.keepsHistory() {
		// As OpenPBS does: success, and nothing of jobs that run either.
		return c.failf(0, "qstat: PBS is not configured to maintain job history %s", strings.Join(ids, " "))
	}
	jobs, status := c.pbsJobs(ids, has("x", "H"))
	jobs = slices.DeleteFunc(jobs, func(v view) bool {
		return slices.ContainsFunc(options, func(x option) bool { return x.name == "u" && !selects(x, &v) })
	})
	if has("H") {
		jobs = slices.DeleteFunc(jobs, func(v view) bool { return !v.Over() })
	}
	switch {
	case has("f"):
		for _, v := range jobs {
			c.printf("%s\n", c.fullJob(&v, has("w")))
		}
	case len(jobs) == 0:
	case has("a", "i", "r", "n", "s", "u", "H", "1"):
		c.wideTable(jobs, has("w"), has("n"), has("s"))
	default:
		c.plainTable(jobs)
	}
	return status
}

// pbsJobs are the jobs that were asked for, in their order; finished ones only
// with history. What cannot be shown is complained about.
func (c *call) pbsJobs(ids []string, history bool) ([]view, int) {
	all := c.c.batch.views()
	if len(ids) == 0 {
		return slices.DeleteFunc(all, func(v view) bool { return v.Over() && !history }), 0
	}
	var jobs []view
	status := 0
	for _, id := range ids {
		number, _, _ := strings.Cut(id, ".")
		i := slices.IndexFunc(all, func(v view) bool { return v.ID == pbsID(id) })
		switch {
		case !isNumber(number):
			status = c.failf(pbsUnknownQueue, "qstat: Unknown queue destination %s", id)
		case i < 0, all[i].Over() && !c.c.batch.keepsHistory():
			status = c.failf(pbsUnknownJob, "qstat: Unknown Job Id %s", pbsID(id))
		case all[i].Over() && !history:
			status = c.failf(pbsFinished, "qstat: %s Job has finished, use -x or -H to obtain historical job information", all[i].ID)
		default:
			jobs = append(jobs, all[i])
		}
	}
	return jobs, status
}

func qselect(_ context.Context, c *call) int {
	options, _, err := optionsOf("u=", "s=", "N=", "x", "H", "q=", "P=", "l=", "t=", "T").parse(c.args, true)
	if err != nil {
		return c.failf(2, "qselect: %v", err)
	}
	if c.c.batch.isDown() {
		return c.failf(255, pbsNoReach, "qselect")
	}
	history := slices.ContainsFunc(options, func(x option) bool { return x.name == "x" || x.name == "H" })
	if history && !c.c.batch.keepsHistory() {
		return c.failf(0, "qselect: PBS is not configured to maintain job history")
	}
	jobs, _ := c.pbsJobs(nil, history)
	for _, v := range jobs {
		if !slices.ContainsFunc(options, func(x option) bool { return !selects(x, &v) }) {
			c.printf("%s\n", v.ID)
		}
	}
	return 0
}

func selects(x option, v *view) bool {
	switch x.name {
	case "N":
		return v.Name == x.value
	case "s":
		return strings.Contains(x.value, v.letter())
	case "q":
		return v.queue == x.value
	case "u":
		return slices.Contains(splitList(x.value), user)
	case "t":
		return changedSince(x.value, v)
	}
	return true
}

// changedSince is qselect's -tc.ge.DATE and -tm.ge.DATE: made, or changed, since then.
func changedSince(asked string, v *view) bool {
	what, date, _ := strings.Cut(asked, ".ge.")
	since, err := time.Parse("200601021504", date)
	if err != nil {
		return false
	}
	at := v.Submitted
	if what == "m" {
		at = latest(v.Submitted, v.Started, v.Ended)
	}
	return !at.Before(since)
}

// letter is the job's state as PBS prints it.
func (v *view) letter() string {
	switch {
	case v.State == statePending && v.held:
		return "H"
	case v.State == statePending:
		return "Q"
	case v.State == stateRunning, v.State == stateEnding && v.cancelled:
		return "R" // a deleted job runs on until its node says that it is over
	case v.State == stateEnding:
		return "E"
	}
	return "F"
}

func (c *call) plainTable(jobs []view) {
	c.printf(`Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
`)
	for _, v := range jobs {
		used := "0"
		if !v.Started.IsZero() {
			used = "00:00:00"
		}
		c.printf("%-17.17s %-16.16s %-17.17s %8s %s %-16s\n", v.ID, v.Name, user, used, v.letter(), v.queue)
	}
}

// wideTable prints what -a, -u and their like do: with -w in wide columns, with -n the
// nodes behind and with -s the comment below.
func (c *call) wideTable(jobs []view, wide, withNodes, comments bool) {
	id, word, session := 15, 8, 6
	if wide {
		id, word, session = 30, 15, 8
	}
	name := word
	if !wide {
		name = 10
	}
	head := fmt.Sprintf("%-*s %-*s %-*s %-*s %-*s %s", id, "Job ID", word, "Username", word, "Queue", name, "Jobname", session, "SessID",
		"NDS TSK Memory Time  S Time")
	rule := strings.Join([]string{dashes(id), dashes(word), dashes(word), dashes(name), dashes(session), "--- --- ------ ----- - -----"}, " ")
	c.printf("\n%s: \n%*s\n%s\n%s\n", pbsServer, len(rule), "Req'd  Req'd   Elap", head, rule)
	for _, v := range jobs {
		pid, elapsed, node := "-- ", " -- ", " -- "
		if !v.Started.IsZero() {
			pid, elapsed, node = strconv.Itoa(v.pid), hourSpan(v.used())[:5], v.Node+"/0"
		}
		c.printf("%-*s %-*s %-*s %-*s %*s %3d %3d %6s %5s %s %5s", id, starred(v.ID, id), word, user, word, starred(v.queue, word),
			name, starred(v.Name, name), session, pid, 1, 1, " -- ", hourSpan(v.limit)[:5], v.letter(), elapsed)
		if withNodes {
			c.printf(" %s", node)
		}
		c.printf("\n")
		if comment := c.pbsComment(&v, "("+v.Node+":ncpus=1)"); comments && comment != "" {
			c.printf("   %s\n", comment)
		}
	}
}

func dashes(n int) string { return strings.Repeat("-", n) }

// starred cuts what does not fit into a column, and marks that.
func starred(text string, width int) string {
	if len(text) <= width {
		return text
	}
	return text[:width-1] + "*"
}

// fullJob is a job as qstat -f prints it: long lines go on after a newline and a
// tab, unless -w asks for them whole.
func (c *call) fullJob(v *view, whole bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Job Id: %s\n", v.ID)
	for _, attr := range c.pbsAttributes(v) {
		line := "    " + attr[0] + " = " + attr[1]
		if !whole {
			line = wrapAttribute(attr[0], attr[1])
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// pbsAttributes are a job's attributes in the server's order.
func (c *call) pbsAttributes(v *view) [][2]string {
	var list [][2]string
	add := func(name, value string) { list = append(list, [2]string{name, value}) }
	ran := !v.Started.IsZero()
	cpus := strconv.Itoa(max(v.cpus, 1))
	vnode := fmt.Sprintf("(%s:ncpus=%s)", v.Node, cpus)

	add("Job_Name", v.Name)
	add("Job_Owner", user+"@"+loginNode)
	if ran {
		add("resources_used.cpupercent", "0")
		add("resources_used.cput", "00:00:00")
		add("resources_used.mem", "0kb")
		add("resources_used.ncpus", cpus)
		add("resources_used.vmem", "0kb")
		add("resources_used.walltime", hourSpan(v.used()))
	}
	add("job_state", v.letter())
	add("queue", v.queue)
	add("server", pbsServer)
	add("Checkpoint", "u")
	add("ctime", c.pbsTime(v.Submitted))
	add("Error_Path", loginNode+":"+v.errLog)
	if ran {
		add("exec_host", v.Node+"/0")
		add("exec_vnode", vnode)
	}
	add("Hold_Types", map[bool]string{true: "u", false: "n"}[v.held])
	add("Join_Path", map[bool]string{true: "oe", false: "n"}[v.join])
	add("Keep_Files", cmp.Or(v.keep, "n"))
	add("Mail_Points", "a")
	add("mtime", c.pbsTime(latest(v.Submitted, v.Started, v.Ended)))
	add("Output_Path", loginNode+":"+v.Log)
	add("Priority", "0")
	add("qtime", c.pbsTime(v.Submitted))
	add("Rerunable", "True")
	if v.mb > 0 {
		add("Resource_List.mem", strconv.Itoa(v.mb)+"mb")
	}
	add("Resource_List.ncpus", cpus)
	add("Resource_List.nodect", "1")
	add("Resource_List.place", "free")
	add("Resource_List.select", v.selected)
	add("Resource_List.walltime", hourSpan(v.limit))
	if ran {
		add("stime", c.pbsTime(v.Started))
		if v.Over() {
			add("obittime", c.pbsTime(v.Ended))
		}
		add("session_id", strconv.Itoa(v.pid))
		add("jobdir", c.c.Home())
	}
	add("substate", substate(v))
	add("Variable_List", strings.Join(c.variableList(v), ","))
	if comment := c.pbsComment(v, vnode); comment != "" {
		add("comment", comment)
	}
	add("etime", c.pbsTime(v.Submitted))
	if ran {
		add("run_count", strconv.Itoa(v.Restarts+1))
	}
	if ran && v.Over() {
		add("Stageout_status", "1")
		add("Exit_status", strconv.Itoa(exitStatus(v)))
	}
	add("Submit_arguments", strings.Join(v.command, " "))
	if v.Over() {
		add("history_timestamp", strconv.FormatInt(v.Ended.Unix(), 10))
	}
	if v.State == statePending && !v.held {
		add("estimated.exec_vnode", fmt.Sprintf("(%s:ncpus=1)", cmp.Or(v.Node, nodes[0])))
		add("estimated.start_time", c.pbsTime(v.Expected))
	}
	add("project", cmp.Or(v.project, "_pbs_project_default"))
	add("Submit_Host", loginNode)
	return list
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// variableList is the environment the job was given, as the server keeps it.
func (c *call) variableList(v *view) []string {
	return append(append([]string{
		"PBS_O_HOME=" + c.c.Home(),
		"PBS_O_LANG=C.UTF-8",
		"PBS_O_LOGNAME=" + user,
		"PBS_O_PATH=/opt/pbs/bin:/usr/local/bin:/usr/bin:/bin",
		"PBS_O_SHELL=/bin/bash",
		"PBS_O_WORKDIR=" + v.WorkDir,
		"PBS_O_SYSTEM=Linux",
	}, v.variables...), "PBS_O_QUEUE="+v.queue, "PBS_O_HOST="+loginNode)
}

func (c *call) pbsComment(v *view, vnode string) string {
	run := "Job run at " + v.Started.Format("Mon Jan _2 at 15:04") + " on " + vnode
	const notRunning = "Not Running: Insufficient amount of resource: ncpus (R: 1 A: 0 T: 2)"
	switch {
	case v.State == statePending && (v.held || v.Reason == "None"): // the scheduler has not looked at it yet
		return ""
	case v.State == statePending:
		return notRunning
	case v.Started.IsZero():
		return notRunning + " and terminated"
	case v.State == stateTimeout:
		return run + " and exceeded resource walltime"
	case v.State == stateCancelled, v.State == stateEnding && v.cancelled:
		return run + " and terminated by " + user + "@" + loginNode
	case v.State == stateFailed:
		return run + " and failed"
	case v.State == stateCompleted:
		return run + " and finished"
	}
	return run
}

func substate(v *view) string {
	switch v.State {
	case statePending:
		if v.held {
			return "20"
		}
		return "10"
	case stateRunning:
		return "42"
	case stateEnding:
		if v.cancelled {
			return "42"
		}
		return "51"
	case stateCancelled:
		return "91"
	case stateCompleted:
		return "92"
	}
	return "93"
}

// exitStatus is Exit_status: 256 and the signal for a job ended by one, -29 for
// one that ran out of time.
func exitStatus(v *view) int {
	switch {
	case v.State == stateTimeout:
		return -29
	case v.Signal != 0:
		return 256 + v.Signal
	}
	return v.Exit
}

// wrapAttribute breaks an attribute's line as qstat does: lists of variables
// between their members, anything else at the last column.
func wrapAttribute(name, value string) string {
	const columns = 79
	line := "    " + name + " = "
	width := len(line)
	var b strings.Builder
	b.WriteString(line)
	pieces := strings.SplitAfter(value, "")
	if name == "Variable_List" {
		pieces = strings.SplitAfter(value, ",")
	}
	for i, piece := range pieces {
		if width+len(piece) > columns && i > 0 {
			b.WriteString("\n\t")
			width = 8
		}
		b.WriteString(piece)
		width += len(piece)
	}
	return b.String()
}
