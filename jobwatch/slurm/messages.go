package slurm

import (
	"regexp"
	"strings"

	"tunctl/jobwatch/sched"
)

// refusals are tried in order. Slurm prints the name of a limit and then a sentence for
// all limits, "… (job submit limit, user's size and/or time limits)", so the names come
// first here. The patterns for sites' own submit filters are loose and come last.
var refusals = sched.Messages([][3]string{
	{`Unable to contact slurm controller|configuration source`, "the scheduler is down or cannot be reached: try again later"},
	{`System submissions disabled|submissions? (?:is|are) (?:currently )?(?:disabled|closed)`, "the site accepts no jobs now, often before a maintenance: try again later"},
	{`Rate limit exceeded|retry momentarily`, "the Slurm controller limits requests per second: try again in a few seconds"},
	{`jobs per (?:hour|minute|day)`, "the site limits how many jobs you submit per hour: wait, and do not submit in a loop"},
	{`Incompatible versions`, "the Slurm versions of this login node and the controller do not match: use another login node, and tell the site"},
	{`I/O error writing script`, "the controller cannot store the job, often because its disk is full: tell the site"},

	{`(?:QOS|Assoc)\w*Run(?:Minutes|Mins)`, "the running jobs of your group, or of the QOS, hold too many hours: wait for one to end, or lower --time"},
	{`(?:QOS|Assoc)Max\w*MinutesPerJob`, "the job asks for more hours of CPUs or GPUs than one job may use: lower --time, or ask for less"},
	{`(?:QOS|Assoc)\w*Minutes`, "the allocation is used up: use another account with --account, or apply for more hours"},
	{`QOSMaxSubmitJobPerUser|QOSMaxSubmitJobPerAccount`, "you have reached the job limit of this QOS: wait for a job to end, cancel one, or use another --qos"},
	{`QOSGrpSubmitJobs`, "this QOS has reached its job limit for all users: try again later, or use another --qos"},
	{`MaxSubmitJobsPerAccount|AssocGrpSubmitJobs`, "your group has reached its job limit: wait for one of its jobs to end, or cancel one"},
	{`\w*MaxSubmitJob\w*|AssocMaxJobs`, "you have reached your limit of queued and running jobs: wait for one to end, or cancel one"},
	{`(?:QOS|Assoc)Max(?:Cpu|CPU)\w*`, "too many CPUs for one job or user: ask for fewer CPUs"},
	{`(?:QOS|Assoc)Max(?:GRES|Gres)\w*`, "too many GPUs for one job or user: ask for fewer GPUs"},
	{`(?:QOS|Assoc)Max(?:Mem)\w*`, "too much memory for one job or user: lower --mem"},
	{`(?:QOS|Assoc)Max(?:Node)\w*`, "too many nodes for one job or user: lower --nodes"},
	{`(?:QOS|Assoc)MaxWall\w*`, "too much time for one job: lower --time"},
	{`QOSMin\w*`, "the job asks for less than this QOS requires, often a number of GPUs: see the rules of the site, or change --qos"},
	{`violates accounting/QOS policy|job submit limit`, "you have reached your job limit, or ask for more than your account allows: wait for a job to end, or ask for less"},

	{`group not permitted`, "only some groups may use the partition: change --partition, or ask the site"},
	{`Access denied to requested reservation`, "you may not use this reservation: remove --reservation, or ask its owner"},
	{`reservation is invalid|Invalid reservation`, "the reservation does not exist, or has ended: remove --reservation"},
	{`Required node not available`, "--nodelist names a node that is down, drained or reserved: remove --nodelist"},
	{`Memory specification can ?not be satisfied`, "no node of the partition has that much memory: lower --mem, or change --partition"},
	{`CPU count per node can ?not be satisfied`, "no node has that many CPUs: lower --cpus-per-task or --ntasks-per-node"},
	{`Requested node configuration is not available`, "no node has that many CPUs, that much memory and those GPUs together: ask for less, or change --partition"},
	{`Requested partition configuration not available`, "the partition is down, too small, or too short for the job: change --partition, --nodes or --time"},
	{`Requested time limit is invalid`, "--time is missing, or exceeds the limit of the partition: set --time within the limit that sinfo shows"},
	{`No partition specified`, "the site has no default partition: set --partition; sinfo lists them"},
	{`Invalid partition|partition.*not (?:exist|valid)`, "the partition does not exist: change --partition; sinfo lists them"},
	{`Invalid qos`, "the QOS does not exist, or your account may not use it: remove --qos, or see sacctmgr show assoc user=$USER"},
	{`Invalid generic resource|Invalid gres`, "the site uses another name for its GPUs: sinfo -o %G shows the names"},
	{`Invalid feature`, "no node has the feature in --constraint: sinfo -o %f lists the features"},
	{`dependency problem`, "--dependency names a job that does not exist or is not yours: correct the job id"},
	{`Invalid job array`, "--array is not valid, or exceeds the limit of the site: shorten the array"},
	{`federated|No eligible clusters`, "a job array cannot run on another cluster of the federation: submit it there, or remove --cluster-constraint"},
	{`No cluster .* known|invalid entry for --cluster`, "the cluster does not exist, or does not respond: change -M; sacctmgr list clusters shows them"},
	{`Pathname .* too long`, "a path, or the script itself, is too long: shorten it"},
	{`SLURM_MEM_PER_\w+.*mutually exclusive`, "variables of an enclosing job are still set: unset SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU and SLURM_MEM_PER_NODE, or submit from the login node"},
	{`mutually exclusive`, "two options exclude each other: use one of them"},
	{`option requires|requires --`, "an option requires another one: set both"},
	{`script arguments not permitted with --wrap`, "--wrap and a script exclude each other: use one of them"},
	{`Invalid --time`, "--time is not valid: write HH:MM:SS or D-HH:MM:SS"},
	{`unrecognized option|invalid option|Invalid --|Invalid \w+ specification`, "this Slurm does not know an option in the script or in args of the session: see sbatch --help"},
	{`DOS line breaks`, sched.WindowsLines},
	{`does not look like a batch script|first.*line must start with #!`, "the script has no #! line: start it with #!/bin/bash"},
	{`script is empty`, "the job script is empty, or is a directory"},
	{`Unable to open file|No such file`, "check that the script is where submit of the session says"},
	{`authentication error|Munge`, "Slurm authentication fails on this login node: tell the site, or try another login node"},

	{
		`Invalid account|account.*(?:required|specify|missing)|(?:specify|missing|must|need).*account|Invalid project|(?:flag|option) -A\b|project.*(?:required|missing)|specify.*project`,
		"the account is missing, wrong, or may not use the partition: set --account in args of the session or in the script; sacctmgr show assoc user=$USER lists yours",
	},
	{
		`(?:gpu|gres).*(?:required|specify|must|missing|mandatory)|(?:specify|must request|missing).*(?:gpu|gres)`,
		"the site requires a number of GPUs: set it, for example --gres=gpu:1, in args of the session or in the script",
	},
	{`time limit|--time|walltime`, "the site does not accept this time limit: set --time within the limit of the partition; sinfo shows it"},
	{`--mem\b|memory`, "the site does not accept this memory request: change --mem"},
	{`constraint`, "change --constraint; sinfo -o %f lists the features"},
	{`partition`, "the partition does not accept this job: change --partition; sinfo lists them"},
})

// doubt matches failures after which the job may still exist: the request was sent, and
// the answer did not arrive. They do not include a failed connection to the controller.
var doubt = regexp.MustCompile(`(?i)Socket timed out|Zero Bytes were transmitted|Transport endpoint is not connected|` +
	`Connection reset|Connection timed out|Unexpected message received|Message receive failure`)

// reasonFor explains Slurm's reason for a waiting job.
func reasonFor(word string) sched.Reason {
	word = strings.ReplaceAll(word, "_", " ")
	if r, ok := reasons[word]; ok {
		return r
	}
	word = strings.TrimSuffix(word, "Limit")
	for _, p := range reasonParts {
		if strings.HasPrefix(word, p.prefix) && strings.HasSuffix(word, p.suffix) {
			return p.Reason
		}
	}
	return sched.Reason{}
}

var reasons = map[string]sched.Reason{
	"Resources":                   {Words: "waiting for free nodes"},
	"Priority":                    {Words: "other jobs have a higher priority"},
	"BeginTime":                   {Words: "the start time is not reached yet"},
	"Dependency":                  {Words: "waiting for another job to end"},
	"DependencyNeverSatisfied":    {Words: "the job that this job depends on did not end as required: cancel this job and submit it again", Never: true},
	"JobHeldUser":                 {Words: "held by you: release it with scontrol release", Held: true, Never: true},
	"JobHeldAdmin":                {Words: "held by an administrator: ask the site", Held: true, Never: true},
	"JobHoldMaxRequeue":           {Words: "held after too many requeues: find out why the runs ended", Held: true, Never: true},
	"PartitionDown":               {Words: "the partition is down"},
	"PartitionInactive":           {Words: "the partition starts no jobs now"},
	"PartitionConfig":             {Words: "no node of the partition has the requested resources: change --partition, or ask for less", Never: true},
	"PartitionNodeLimit":          {Words: "the partition does not have that many nodes now, or allows fewer for one job: wait for drained nodes, lower --nodes, or change --partition"},
	"PartitionTimeLimit":          {Words: "the job asks for more time than the partition allows: lower --time, or change --partition", Never: true},
	"AccountNotAllowed":           {Words: "your account may not use this partition: change --account or --partition", Never: true},
	"InvalidAccount":              {Words: "the account is not valid: set --account", Never: true},
	"InvalidQOS":                  {Words: "the QOS is not valid: change --qos", Never: true},
	"QOSNotAllowed":               {Words: "the QOS is not allowed here: change --qos or --partition", Never: true},
	"BadConstraints":              {Words: "no node satisfies the constraints now, perhaps because some are drained: if this stays, change --constraint, or ask for less"},
	"ReservationDeleted":          {Words: "the reservation was deleted: submit without --reservation", Never: true},
	"Reservation":                 {Words: "waiting for the reservation to begin"},
	"Licenses":                    {Words: "waiting for a licence"},
	"JobArrayTaskLimit":           {Words: "the array has reached its limit of simultaneous tasks"},
	"Cleaning":                    {Words: "the previous run is being cleaned up"},
	"Prolog":                      {Words: "the nodes are being prepared, which can take many minutes"},
	"NodeDown":                    {Words: "a required node is down"},
	"SystemFailure":               {Words: "Slurm reports a system failure: ask the site"},
	"MaxPowerAvail":               {Words: "the power budget of the cluster is used up"},
	"MaxMemPerLimit":              {Words: "the job asks for more memory per CPU or node than the partition allows: lower --mem, or ask for more CPUs", Never: true},
	"QOSUsageThreshold":           {Words: "your account has used more than its share, so this QOS starts no job of it now: wait, or change --qos"},
	"AccountingPolicy":            {Words: "a limit of your account or QOS is reached: sacctmgr show assoc user=$USER shows the limits"},
	"None":                        {},
	"launch failed requeued held": {Words: "held after the launch failed: release it with scontrol release", Held: true, Never: true},
	"job requeued in held state":  {Words: "requeued and held: release it with scontrol release", Held: true, Never: true},
	"AssocMaxJobsLimit":           {Words: "you have reached your job limit; this job starts when another one ends"},
	"QOSMaxJobsPerUserLimit":      {Words: "you have reached the job limit of this QOS; this job starts when another one ends"},
	"AssociationJobLimit":         {Words: "you have reached your job limit; this job starts when another one ends"},
	"QOSJobLimit":                 {Words: "this QOS has reached its job limit"},
	"QOSResourceLimit":            {Words: "you have reached the resource limit of this QOS"},
	"AssocGrpJobsLimit":           {Words: "your group has reached its job limit; this job starts when another one ends"},
}

// reasonParts are families of reasons without a "Limit" at their end, the most specific first.
// Waiting helps neither against a limit per job nor against a used-up allocation. A limit of run
// minutes counts what the running jobs may still use, so it passes as they end.
var reasonParts = []struct {
	prefix, suffix string
	sched.Reason
}{
	{"QOS", "RunMinutes", sched.Reason{Words: "the running jobs of this QOS hold too many hours; a shorter --time may start sooner"}},
	{"", "RunMinutes", sched.Reason{Words: "your group's running jobs hold too many hours; a shorter --time may start sooner"}},
	{"", "Minutes", sched.Reason{Words: "the allocation is used up: check your quota, or use another account", Never: true}},
	{"", "PerJob", sched.Reason{Words: "the job asks for more than one job may use: ask for less, or change --qos", Never: true}},
	{"", "PerNode", sched.Reason{Words: "the job asks for more per node than one job may use: ask for less", Never: true}},
	{"QOSMaxWall", "", sched.Reason{Words: "the job asks for more time than the QOS allows: lower --time", Never: true}},
	{"AssocMaxWall", "", sched.Reason{Words: "the job asks for more time than you may use: lower --time", Never: true}},
	{"QOSMin", "", sched.Reason{Words: "the job asks for less than the QOS requires, often a number of GPUs: see the rules of the site", Never: true}},
	{"QOSGrp", "", sched.Reason{Words: "this QOS has reached its limit for all users"}},
	{"QOSMax", "", sched.Reason{Words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"AssocGrp", "", sched.Reason{Words: "your group has reached its limit; the job starts when another one of the group ends"}},
	{"Assoc", "", sched.Reason{Words: "you have reached the limit of your account; the job starts when another one of yours ends"}},
	{"Max", "PerAccount", sched.Reason{Words: "your account has reached its limit of this QOS; the job starts when another one of the account ends"}},
	{"MaxJobsPer", "", sched.Reason{Words: "you have reached your job limit; this job starts when another one ends"}},
	{"ReqNodeNotAvail, Reserved", "", sched.Reason{Words: "the nodes are reserved, often for a maintenance: a shorter --time may fit before it"}},
	{"ReqNodeNotAvail", "", sched.Reason{Words: "the requested nodes are down, drained or reserved: a shorter --time or other nodes may help"}},
	{"Nodes required for job are DOWN", "", sched.Reason{Words: "waiting for nodes; some are down, or reserved for jobs with a higher priority"}},
	{"Job's account not permitted", "", sched.Reason{Words: "your account may not use this partition: change --account or --partition", Never: true}},
	{"Job's QOS not permitted", "", sched.Reason{Words: "the QOS is not allowed in this partition: change --qos or --partition", Never: true}},
	{"user env retrieval failed", "", sched.Reason{
		Words: "held: Slurm could not read your login environment, often because ~/.bashrc or ~/.profile is slow or fails; then release it with scontrol release", Held: true, Never: true,
	}},
	{"Reserved for maintenance", "", sched.Reason{Words: "a maintenance is coming: a shorter --time may fit before it"}},
}

var noJob = regexp.MustCompile(`Invalid job id`)

// noAnswer matches the messages that say that the controller does not answer.
var noAnswer = regexp.MustCompile(`(?i)Unable to contact slurm controller|Socket timed out|Zero Bytes were transmitted|` +
	`Transport endpoint|Connection refused|Connection timed out|Protocol authentication error|Munge encode failed|` +
	`Unable to process configuration file|establish a configuration source|Rate limit exceeded`)
