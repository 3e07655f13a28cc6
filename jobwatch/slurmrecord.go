package jobwatch

import (
	"regexp"
	"strings"
)

// slurmRecord is what scontrol show job tells of one job, by key.
type slurmRecord map[string]string

// scontrolKeys are the keys of scontrol show job from Slurm 15.08 to 26.05, apart from
// freeKeys. A value ends where one of them begins. Keys that only scontrol show job -d
// prints are among them: sites have wrappers.
const scontrolKeys = `JobId ArrayJobId ArrayTaskId ArrayTaskThrottle HetJobId HetJobOffset SLUID HetJobIdSet PackJobId ` +
	`PackJobOffset PackJobIdSet UserId GroupId MCS_label Priority Nice Account QOS WCKey JobState Reason FailedNode Dependency ` +
	`Requeue Restarts BatchFlag Reboot ExitCode DerivedExitCode RunTime TimeLimit TimeMin SubmitTime EligibleTime AccrueTime ` +
	`ResizeTime StartTime EndTime Deadline CronJob CrontabSpec PreemptEligibleTime PreemptTime SuspendTime SecsPreSuspend ` +
	`LastSchedEval Scheduler Partition AllocNode:Sid ReqNodeList ExcNodeList NodeList SchedNodeList BatchFeatures BatchHost ` +
	`StepMgrEnabled FedOrigin FedViableSiblings FedActiveSiblings NumNodes NumCPUs NumTasks CPUs/Task ReqB:S:C:T ReqS:C:T TRES ` +
	`ReqTRES AllocTRES Socks/Node NtasksPerN:B:S:C CoreSpec ThreadSpec JOB_GRES Nodes CPU_IDs Mem GRES MinCPUsNode ` +
	`MinMemoryNode MinMemoryCPU MinMemory MinTmpDiskNode MemUpdate Features DelayBoot ClusterFeatures Prefer Gres Reservation ` +
	`OverSubscribe Shared Exclusive Contiguous Licenses LicensesAlloc Network ` + tailKeys

// tailKeys are those that are printed after the first of freeKeys.
const tailKeys = `SegmentSize SpreadSegments ConsolidateSegments Switches BurstBufferState Power SICP CPU_min_freq CPU_max_freq ` +
	`Governor GresAllowTaskSharing GresEnforceBind GresOneTaskPerSharing KillOInInvalidDependent KillOnInvalidDependent SpreadJob ` +
	`ExpeditedRequeue OOMKillStep CpusPerTres MemPerTres TresBind TresFreq TresPerJob TresPerNode TresPerSocket TresPerTask ` +
	`MailUser MailType NtasksPerTRES ContainerType Container ContainerID SELinuxContext ResvPorts`

// freeKeys have a person's text or path for a value, which may look like anything, and
// a line of their own in the form with several lines.
const freeKeys = `Command SubmitLine WorkDir AdminComment SystemComment Comment Extra StdErr StdIn StdOut BurstBuffer`

// goingOn are the free texts that may have several lines; a path has not.
const goingOn = `JobName SubmitLine AdminComment SystemComment Comment Extra BurstBuffer`

var (
	anyKey    = keyPattern(`(?:^|\s)`, scontrolKeys+" "+freeKeys)
	tailKey   = keyPattern(`(?:^|\s)`, tailKeys+" "+freeKeys)
	lineKey   = keyPattern(`^\s*`, scontrolKeys)
	freeKey   = keyPattern(`^\s*`, freeKeys)
	firstFree = keyPattern(`\s`, freeKeys)
	newKey    = regexp.MustCompile(`^\s*[A-Z][A-Za-z_:/-]*=`)

	recordStart = regexp.MustCompile(`(?m)^[ \t]*JobId=`)
	ownLine     = regexp.MustCompile(`(?m)^\s*UserId=`)
	jobName     = regexp.MustCompile(`\s(?:JobName|Name)=`)
	// afterName: a job's name may look like other fields, but hardly like these two.
	afterName = regexp.MustCompile(`\s(?:(?:SLUID|HetJobIdSet|PackJobIdSet)=\S+\s+)*UserId=[^=]*\sGroupId=[^=]*\s\w+=`)
)

func keyPattern(before, keys string) *regexp.Regexp {
	words := strings.Fields(keys)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	return regexp.MustCompile(before + "(" + strings.Join(words, "|") + ")[=]")
}

// splitScontrol reads the answer of scontrol show job in either of its forms. Lines
// that belong to no job, as a site's wrapper prints them, are dropped.
func splitScontrol(out string) []slurmRecord {
	var records []slurmRecord
	starts := recordStart.FindAllStringIndex(out, -1)
	for i, at := range starts {
		end := len(out)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if r := readRecord(out[at[0]:end]); r["JobId"] != "" && r["JobState"] != "" {
			records = append(records, r)
		}
	}
	return records
}

func readRecord(text string) slurmRecord {
	r := make(slurmRecord)
	if ownLine.MatchString(text) {
		r.readLines(text)
	} else {
		r.readLine(text)
	}
	return r
}

// readLines reads the form with several lines, in which every free text has a line of
// its own, so that nothing in it can be taken for another key.
func (r slurmRecord) readLines(text string) {
	last := "" // the key that the line before ended with
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		switch {
		case i == 0:
			r.readHead(line)
			last = "JobName"
		case freeKey.MatchString(line):
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			r[key] = value // the last one: what looks like it before is part of a comment
			last = key
		case lineKey.MatchString(line):
			last = r.add(line, anyKey)
		case newKey.MatchString(line) || strings.TrimSpace(line) == "":
			last = "" // a key of a Slurm to come, or the record's end
		case contains(goingOn, last):
			r[last] += "\n" + strings.TrimSpace(line)
		}
	}
}

// readHead reads the line with the ids and the name.
func (r slurmRecord) readHead(line string) {
	if at := jobName.FindStringIndex(line); at != nil {
		r["JobName"] = line[at[1]:]
		line = line[:at[0]]
	}
	r.add(line, anyKey)
}

// readLine reads the form with one line a job, and one that was folded again.
func (r slurmRecord) readLine(text string) {
	text = joinFolds(text)
	head, rest := text, ""
	if at := afterName.FindAllStringIndex(text, -1); at != nil {
		last := at[len(at)-1]
		head, rest = text[:last[0]], text[last[0]:]
	}
	r.readHead(head)
	tail := ""
	if at := firstFree.FindStringIndex(rest); at != nil {
		rest, tail = rest[:at[0]], rest[at[0]:]
	}
	r.add(rest, anyKey)
	r.add(tail, tailKey)
}

// joinFolds makes one line of a record. What follows the paths and begins with no key
// is not part of it.
func joinFolds(text string) string {
	var b strings.Builder
	tail := false
	for line := range strings.Lines(text) {
		if tail && !newKey.MatchString(line) {
			continue
		}
		b.WriteString(strings.TrimRight(line, " \r\n"))
		b.WriteByte(' ')
		tail = tail || firstFree.MatchString(" "+line)
	}
	return b.String()
}

// add adds the values between the matches of key, and returns the last key. The first
// of a key counts, but for the paths the last: a comment before them may speak of one.
func (r slurmRecord) add(text string, key *regexp.Regexp) (last string) {
	at := key.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		last = text[m[2]:m[3]]
		if _, known := r[last]; !known || strings.HasPrefix(last, "Std") {
			r[last] = strings.TrimSpace(text[m[1]:end])
		}
	}
	return last
}

func contains(words, word string) bool {
	return word != "" && strings.Contains(" "+words+" ", " "+word+" ")
}
