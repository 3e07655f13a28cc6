package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func scontrol(_ context.Context, c *call) int {
	options, words, err := optionsOf("o|oneliner", "d|details", "Q|quiet", "a|all", "V|version", "M|clusters=").parse(c.args, true)
	if err != nil {
		return c.failf(1, "scontrol: error: %v", err)
	}
	if slices.Contains(options, option{"version", ""}) {
		c.printf("%s\n", slurmVersion)
		return 0
	}
	if len(words) == 0 {
		return c.failf(1, "scontrol: the practice cluster has no interactive scontrol")
	}
	down := c.c.batch.isDown()
	switch verb := words[0]; {
	case verb == "ping" && down:
		c.printf("Slurmctld(primary) at %s is DOWN\n", loginNode)
		return 1
	case verb == "ping":
		c.printf("Slurmctld(primary) at %s is UP\n", loginNode)
		return 0
	case verb == "show" && len(words) > 1 && (words[1] == "job" || words[1] == "jobs"):
		return c.showJobs(words[2:], slices.Contains(options, option{"oneliner", ""}))
	case down:
		return c.failf(1, "scontrol: error: %s", controllerGone)
	case verb == "show" && len(words) > 1 && words[1] == "partition":
		c.printf("PartitionName=%s AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES MaxTime=8:00:00 State=UP \n", slurmPartition)
		return 0
	case verb == "requeue" && len(words) == 2:
		return c.changeJob(words[1], func(b *batch, id string) error { return b.stop(id, stopRequeue) })
	case verb == "update":
		return c.updateJob(words[1:])
	case verb == "release" && len(words) == 2:
		return c.changeJob(words[1], (*batch).unhold)
	}
	return c.failf(1, "scontrol: the practice cluster does not know %q", strings.Join(words, " "))
}

func (c *call) changeJob(id string, change func(*batch, string) error) int {
	if _, err := c.c.batch.find(id); err != nil {
		return c.failf(1, "Invalid job id specified for job %s", id)
	}
	if err := change(c.c.batch, id); err != nil {
		return c.failf(1, "Job has already finished for job %s", id)
	}
	return 0
}

// unhold lets a held job into the queue.
func (b *batch) unhold(id string) error {
	j, err := b.find(id)
	if err != nil {
		return err
	}
	select {
	case j.release <- struct{}{}:
	default:
	}
	return nil
}

func (c *call) showJobs(ids []string, oneLine bool) int {
	if c.c.batch.isDown() {
		return c.failf(1, "slurm_load_jobs error: %s", controllerGone)
	}
	if len(ids) > 0 {
		if _, err := strconv.Atoi(ids[0]); err != nil {
			return c.failf(1, "scontrol_print_job error: Invalid job id specified")
		}
		if _, err := c.c.batch.find(ids[0]); err != nil {
			return c.failf(1, "slurm_load_jobs error: Invalid job id specified")
		}
	}
	for _, v := range c.c.batch.views() {
		if len(ids) > 0 && v.ID != ids[0] {
			continue
		}
		lines := c.jobLines(&v)
		if oneLine {
			c.printf("%s \n", strings.Join(lines, " "))
		} else {
			c.printf("%s\n   \n\n", strings.Join(lines, "\n   "))
		}
	}
	return 0
}

// jobLines is a job as scontrol show job prints it, line by line.
func (c *call) jobLines(v *view) []string {
	at := func(t time.Time) string { return c.slurmTime(t, "Unknown") }
	lines := []string{
		fmt.Sprintf("JobId=%s JobName=%s", v.ID, v.Name),
		fmt.Sprintf("UserId=%s(%s) GroupId=%s(%s) MCS_label=N/A", user, userID, user, userID),
		fmt.Sprintf("Priority=%d Nice=0 Account=%s QOS=normal", v.priority(), v.account),
		fmt.Sprintf("JobState=%s Reason=%s Dependency=(null)", v.State, strings.ReplaceAll(v.Reason, " ", "_")),
		fmt.Sprintf("Requeue=1 Restarts=%d BatchFlag=1 Reboot=0 ExitCode=%d:%d", v.Restarts, v.Exit, v.Signal),
		fmt.Sprintf("RunTime=%s TimeLimit=%s TimeMin=N/A", longSpan(v.used()), longSpan(v.limit)),
		fmt.Sprintf("SubmitTime=%s EligibleTime=%s", at(v.Submitted), at(v.Submitted)),
		"AccrueTime=" + at(v.Submitted),
		fmt.Sprintf("StartTime=%s EndTime=%s Deadline=N/A", at(v.start()), at(v.end())),
		fmt.Sprintf("SuspendTime=None SecsPreSuspend=0 LastSchedEval=%s Scheduler=Main", at(v.Submitted)),
		fmt.Sprintf("Partition=%s AllocNode:Sid=%s:1", v.queue, loginNode),
		"ReqNodeList=(null) ExcNodeList=(null)",
		"NodeList=" + v.node(),
	}
	switch {
	case v.node() != "":
		lines = append(lines, "BatchHost="+v.node())
	case v.scheduled() != "":
		lines = append(lines, "SchedNodeList="+v.scheduled())
	}
	return append(lines,
		fmt.Sprintf("NumNodes=1 NumCPUs=%[1]d NumTasks=1 CPUs/Task=%[1]d ReqB:S:C:T=0:0:*:*", max(v.cpus, 1)),
		fmt.Sprintf("TRES=%s,node=1,billing=%d%s", v.tres(), max(v.cpus, 1), v.gpuTRES()),
		"Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*",
		fmt.Sprintf("MinCPUsNode=%d MinMemoryCPU=%dM MinTmpDiskNode=0", max(v.cpus, 1), v.memory()/max(v.cpus, 1)),
		"Features=(null) DelayBoot=00:00:00",
		"OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)",
		"Command="+commandLine(v),
		"WorkDir="+v.WorkDir,
		"StdErr="+v.errLog,
		"StdIn=/dev/null",
		"StdOut="+v.Log,
		"Power=",
	)
}

// tres is what a job has of a node, as Slurm writes it.
func (v *view) tres() string { return fmt.Sprintf("cpu=%d,mem=%dM", max(v.cpus, 1), v.memory()) }

func (v *view) gpuTRES() string {
	if v.gpus == 0 {
		return ""
	}
	return fmt.Sprintf(",gres/gpu=%d", v.gpus)
}

func commandLine(v *view) string {
	if v.Script == "" {
		return "(null)"
	}
	return strings.Join(append([]string{v.Script}, v.args...), " ")
}
