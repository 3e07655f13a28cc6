package jobwatch

import (
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// refusalHint is a known refusal: why it comes, and the way out.
type refusalHint struct {
	words *regexp.Regexp
	hint  string
}

// ownRule is the hint where nothing is known: every site has rules of its own, which
// its submit filter words as it likes.
const ownRule = "a rule of the site's: do what the message asks for, in the session's args or the script, or ask its support"

// refusal is the scheduler's no, in its own words, with a hint. The first of the known
// refusals that fits is taken.
func refusal(a answer, known []refusalHint) error {
	words := complaints(a)
	err := &api.Error{Code: api.CodeSubmit, Message: "the job was refused: " + words, Hint: ownRule}
	for _, k := range slices.Concat(known, anyRefusals) {
		if k.words.MatchString(words) {
			err.Hint = k.hint
			break
		}
	}
	return err
}

var complaintPrefix = regexp.MustCompile(`^(?:(?:sbatch|srun|qsub): (?:error: |fatal: )?|(?:error|ERROR): )`)

// complaints are the lines a submit command wrote to its standard error, without its
// name and without the usage that some print.
func complaints(a answer) string {
	var lines []string
	for line := range strings.Lines(a.stderr) {
		if strings.HasPrefix(line, "usage:") {
			break
		}
		line = strings.TrimSpace(complaintPrefix.ReplaceAllString(line, ""))
		if line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return firstComplaint(Result{Stdout: []byte(a.stdout), Exit: a.exit})
	}
	return clip(api.Redact(strings.Join(lines, "; ")), 600)
}

func hints(rows [][2]string) []refusalHint {
	list := make([]refusalHint, len(rows))
	for i, row := range rows {
		list[i] = refusalHint{regexp.MustCompile(`(?i)` + row[0]), row[1]}
	}
	return list
}

// slurmRefusals are looked through in order. Slurm says a limit's name first and then a
// sentence that fits all limits, "… (job submit limit, user's size and/or time limits)",
// so that the names come first here. Sites' own submit filters word theirs freely, so
// that those patterns are loose, and come last.
var slurmRefusals = hints([][2]string{
	{`Unable to contact slurm controller|configuration source`, "the scheduler is down or out of reach: try again later"},
	{`System submissions disabled|submissions? (?:is|are) (?:currently )?(?:disabled|closed)`, "the site takes no jobs now, often before a maintenance: try again later"},
	{`Rate limit exceeded|retry momentarily`, "the controller limits how many requests it takes a second: try again in a few seconds"},
	{`jobs per (?:hour|minute|day)`, "the site limits how many jobs may be submitted in an hour: wait, and do not submit in a loop"},
	{`Incompatible versions`, "this login node's Slurm and the controller's do not go together: use another login node, and tell the site"},
	{`I/O error writing script`, "the controller cannot store the job, often because its disk is full: tell the site"},

	{`(?:QOS|Assoc)\w*(?:Minutes|RunMins)`, "the allocation's hours are used up: use another account with --account, or ask for hours"},
	{`QOSMaxSubmitJobPerUser|QOSMaxSubmitJobPerAccount`, "you have as many jobs as this QOS allows: wait for one to end, cancel one, or use another --qos"},
	{`QOSGrpSubmitJobs`, "everybody in this QOS together has as many jobs as it takes: try again later, or use another --qos"},
	{`MaxSubmitJobsPerAccount|AssocGrpSubmitJobs`, "your group has as many jobs as it may: wait for a colleague's job to end, or cancel one"},
	{`\w*MaxSubmitJob\w*|AssocMaxJobs`, "you have as many jobs queued or running as you may: wait for one to end, or cancel one"},
	{`(?:QOS|Assoc)Max(?:Cpu|CPU)\w*`, "more CPUs than one job or person may have: ask for fewer CPUs"},
	{`(?:QOS|Assoc)Max(?:GRES|Gres)\w*`, "more GPUs than one job or person may have: ask for fewer"},
	{`(?:QOS|Assoc)Max(?:Mem)\w*`, "more memory than one job or person may have: lower --mem"},
	{`(?:QOS|Assoc)Max(?:Node)\w*`, "more nodes than one job or person may have: lower --nodes"},
	{`(?:QOS|Assoc)MaxWall\w*`, "more time than one job may have: lower --time"},
	{`QOSMin\w*`, "less than this QOS requires: see the site's rules, often a number of GPUs, or change --qos"},
	{`violates accounting/QOS policy|job submit limit`, "you have as many jobs as you may, or ask for more than your account may have: wait for a job to end, or ask for less"},

	{`group not permitted`, "the partition is for some groups only: change --partition, or ask the site"},
	{`Access denied to requested reservation`, "the reservation is for others: leave out --reservation, or ask its owner"},
	{`reservation is invalid|Invalid reservation`, "there is no such reservation, or it is over: leave out --reservation"},
	{`Required node not available`, "--nodelist names a node that is down, drained or reserved: leave out --nodelist"},
	{`Memory specification can ?not be satisfied`, "more memory than any node of the partition has: lower --mem, or change --partition"},
	{`CPU count per node can ?not be satisfied`, "more CPUs on a node than any has: lower --cpus-per-task or --ntasks-per-node"},
	{`Requested node configuration is not available`, "no node has that many CPUs, that memory or those GPUs together: ask for less, or change --partition"},
	{`Requested partition configuration not available`, "the partition is down, too small, or too short for the job: change --partition, --nodes or --time"},
	{`Requested time limit is invalid`, "--time is missing, or over the partition's limit: set --time within what sinfo shows"},
	{`No partition specified`, "the site has no default partition: give --partition; sinfo lists them"},
	{`Invalid partition|partition.*not (?:exist|valid)`, "there is no such partition: change --partition; sinfo lists them"},
	{`Invalid qos`, "there is no such QOS, or not with this account: leave out --qos, or see sacctmgr show assoc user=$USER"},
	{`Invalid generic resource|Invalid gres`, "the site names its GPUs otherwise: sinfo -o %G shows the names"},
	{`Invalid feature`, "no node has what --constraint asks for: sinfo -o %f lists the features"},
	{`dependency problem`, "--dependency names a job that is gone or not yours: correct its id"},
	{`Invalid job array`, "--array is not well formed, or longer than the site takes: shorten the array"},
	{`federated|No eligible clusters`, "the job asks for another cluster of the federation, which an array cannot: submit it there, or leave out --cluster-constraint"},
	{`No cluster .* known|invalid entry for --cluster`, "there is no such cluster, or it does not answer: change -M; sacctmgr list clusters shows them"},
	{`Pathname .* too long`, "a path, or the script itself, is too long: shorten it"},
	{`SLURM_MEM_PER_\w+.*mutually exclusive`, "it was run inside a job whose own variables are still set: unset SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU and SLURM_MEM_PER_NODE before, or submit from the login node"},
	{`mutually exclusive`, "two options ask for the same thing in two ways: use one of them"},
	{`option requires|requires --`, "an option needs another one with it: give both"},
	{`script arguments not permitted with --wrap`, "both --wrap and a script are given: use one of them"},
	{`Invalid --time`, "--time is not well formed: write it as HH:MM:SS or D-HH:MM:SS"},
	{`unrecognized option|invalid option|Invalid --|Invalid \w+ specification`, "an option in the script or the session's args is not one of this Slurm's: see sbatch --help"},
	{`DOS line breaks`, windowsLines},
	{`does not look like a batch script|first.*line must start with #!`, "the script has no #! line: begin it with #!/bin/bash"},
	{`script is empty`, "the job script is empty or a folder"},
	{`Unable to open file|No such file`, "see that the script is where the session says"},
	{`authentication error|Munge`, "Slurm's authentication on this login node is broken: tell the site, or try another login node"},

	{
		`Invalid account|account.*(?:required|specify|missing)|(?:specify|missing|must|need).*account|Invalid project|(?:flag|option) -A\b|project.*(?:required|missing)|specify.*project`,
		"no account is given, a wrong one, or one that may not use that partition: set --account in the session's args or the script; sacctmgr show assoc user=$USER lists yours",
	},
	{
		`(?:gpu|gres).*(?:required|specify|must|missing|mandatory)|(?:specify|must request|missing).*(?:gpu|gres)`,
		"the site wants GPUs to be asked for: say how many, for example --gres=gpu:1, in the session's args or the script",
	},
	{`time limit|--time|walltime`, "the time asked for is not one that the site takes: set --time within the partition's limit; sinfo shows it"},
	{`--mem\b|memory`, "the memory asked for is not what the site takes: change --mem"},
	{`constraint`, "change --constraint; sinfo -o %f lists the features"},
	{`partition`, "the partition is not one for this job: change --partition; sinfo lists them"},
})

const (
	windowsLines = "the script has Windows line ends: convert it with dos2unix"
	fromLogin    = "jobs are not taken from this host: submit from the login node"
)

// pbsRefusals are PBS Pro's, OpenPBS's and Torque's; see slurmRefusals for their order.
var pbsRefusals = hints([][2]string{
	{`Access from host not allowed|ruserok|Bad UID|on compute nodes?`, fromLogin},
	{`cannot connect|Connection refused|Unknown Host`, "the server is down, or its name is wrong: try again later"},
	{`Failed to save job`, "the server's disk or database is in trouble: tell the site"},
	{`cr, lf|DOS/Windows`, windowsLines},

	{`group ACL`, "the queue is for another group: change -q, or ask the site"},
	{`user ACL`, "the queue is for other users: change -q, or ask the site"},
	{`No default queue|requested queue not found`, "no queue is given, or there is no such queue: give -q; qstat -Q lists the queues"},
	{`Unknown queue`, "there is no such queue: change -q; qstat -Q lists the queues"},
	{`Queue is not enabled`, "the queue takes no jobs now: change -q, or try again later; qstat -Q lists the queues"},
	{`Access to queue is denied`, "you may not use this queue, or only through a routing queue: change -q"},
	{`rejected by all possible destinations`, "no queue takes a job of this size or walltime, or no queue was given: set -q; see the site's table of queues"},
	{`cannot locate feasible nodes|exceeds queue resource limits`, "no node of the queue has that much: ask for less, or change -q"},
	{`violates queue and/or server resource limits`, "more walltime, CPUs, memory or nodes than the queue gives: ask for less, or change -q"},
	{`would exceed .*limit on resource`, "you use as much of this resource as you may: wait for a job to end, or ask for fewer"},
	{`would exceed .*per-(?:project|group)`, "your project has as many jobs as it may: wait for one to end"},
	{`would exceed .*'Q' state`, "you have as many waiting jobs as you may: wait for one to start, or cancel one"},
	{`would exceed`, "you have as many jobs as you may: wait for one to end, or cancel one"},
	{`Maximum number of jobs`, "the queue is full: wait, or change -q"},
	{`Array job exceeds`, "the array is longer than the server takes: shorten -J"},
	{`conflicting specification|job and reservation`, "the job asks for what its reservation does not have: leave out the place or the queue"},
	{`Account_Name|-A PROJECT`, "no project is given: set -A PROJECT in the session's args or the script"},
	{`filesystems`, "the site wants to know the file systems that the job uses: add -l filesystems=home:NAME with those of the site"},
	{`in job name|illegal -N|name is too long`, "the job's name is not one that the site takes: change -N"},
	{`cannot be used with "select"`, "use either -l select=… or the old -l ncpus=… form, not both"},
	{`No walltime|walltime.*(?:required|missing)|(?:specify|must).*walltime`, "the site wants a time limit: give -l walltime=HH:MM:SS"},
	{`walltime`, "the walltime is not well formed or too long: write -l walltime=HH:MM:SS within the queue's limit"},
	{`group_id|tightly coupled`, "the job's nodes may lie far apart: add -l place=scatter:group=group_id"},
	{`Resource: (\w+) is required|is required to be set`, "the site wants this resource: add it with -l, as its guide says"},
	{`Unknown resource|Illegal attribute or resource`, "a resource in -l is wrong: see the site's guide"},
	{`invalid option|directive error|illegal -`, "an option in the script or the session's args is wrong: see man qsub"},
	{`No such file`, "see that the script is where the session says"},
	{`Unauthorized`, "your account may not submit this: it is not set up, its group is not the right one, or the script lies where PBS does not take it: see the site's guide, and try from the home folder"},
	{`project|account`, "no project is given, or not one of yours: set -P PROJECT in the session's args or the script; at NSCC, myprojects lists yours"},
})

// anyRefusals are of submit filters and wrappers that stand before more than one kind
// of scheduler.
var anyRefusals = hints([][2]string{
	{`no submit host|not a submit host|only .*from .*login`, fromLogin},
	{`unknown queue`, "there is no such queue: change -q; qconf -sql or the site's guide lists them"},
	{`unknown resource`, "there is no such resource: change -l; qconf -sc or the site's guide lists them"},
	{`-P flag|project not specified|specify a project`, "no project is given: give -P PROJECT"},
	{`user group`, "the queue wants another group: give -G GROUP"},
	{`maintenance`, "a maintenance is under way or near: try again later, or ask for less time"},
	{`quota|disk (?:space|full)`, "your quota or a disk is used up: free some space"},
	{`line ends|line endings|line breaks`, windowsLines},
})
