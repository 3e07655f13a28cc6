package jobwatch

import (
	"regexp"
	"strings"
)

// pbsRefusals are PBS Pro's, OpenPBS's and Torque's; see slurmRefusals for their order.
var pbsRefusals = refusalHints([][2]string{
	{`Access from host not allowed|ruserok|Bad UID|on compute nodes?`, fromLogin},
	{`cannot connect|Connection refused|Unknown Host`, "the PBS server is down, or its name is wrong: try again later"},
	{`Failed to save job`, "the PBS server cannot save the job: tell the site"},
	{`cr, lf|DOS/Windows`, windowsLines},

	{`group ACL`, "your group may not use the queue: change -q, or ask the site"},
	{`user ACL`, "you may not use the queue: change -q, or ask the site"},
	{`No default queue|requested queue not found`, "the queue is missing or does not exist: set -q; qstat -Q lists the queues"},
	{`Unknown queue`, "the queue does not exist: change -q; qstat -Q lists the queues"},
	{`Queue is not enabled`, "the queue accepts no jobs now: change -q, or try again later; qstat -Q lists the queues"},
	{`Access to queue is denied`, "you may not use this queue, or only through a routing queue: change -q"},
	{`rejected by all possible destinations`, "no queue accepts a job of this size or walltime, or the queue is missing: set -q; see the queues in the guide of the site"},
	{`cannot locate feasible nodes|exceeds queue resource limits`, "no node of the queue has the requested resources: ask for less, or change -q"},
	{`violates queue and/or server resource limits`, "the job asks for more walltime, CPUs, memory or nodes than the queue allows: ask for less, or change -q"},
	{`would exceed .*limit on resource`, "you have reached your limit of this resource: wait for a job to end, or ask for less"},
	{`would exceed .*per-(?:project|group)`, "your project has reached its job limit: wait for one to end"},
	{`would exceed .*'Q' state`, "you have reached your limit of queued jobs: wait for one to start, or cancel one"},
	{`would exceed`, "you have reached your job limit: wait for one to end, or cancel one"},
	{`Maximum number of jobs`, "the queue is full: wait, or change -q"},
	{`Array job exceeds`, "the array is longer than the server allows: shorten -J"},
	{`conflicting specification|job and reservation`, "the job conflicts with its reservation: remove the place or the queue"},
	{`Account_Name|-A PROJECT`, "the project is missing: set -A PROJECT in args of the session or in the script"},
	{`filesystems`, "the site requires the file systems that the job uses: add -l filesystems=home:NAME with the names of the site"},
	{`in job name|illegal -N|name is too long`, "the site does not accept the job name: change -N"},
	{`cannot be used with "select"`, "-l select=… and the old -l ncpus=… exclude each other: use one of them"},
	{`No walltime|walltime.*(?:required|missing)|(?:specify|must).*walltime`, "the site requires a time limit: set -l walltime=HH:MM:SS"},
	{`walltime`, "the walltime is not valid or too long: set -l walltime=HH:MM:SS within the limit of the queue"},
	{`group_id|tightly coupled`, "the nodes of the job must be close to each other: add -l place=scatter:group=group_id"},
	{`Resource: (\w+) is required|is required to be set`, "the site requires this resource: add it with -l, as the guide of the site says"},
	{`Unknown resource|Illegal attribute or resource`, "a resource in -l is wrong: see the guide of the site"},
	{`invalid option|directive error|illegal -`, "an option in the script or in args of the session is wrong: see man qsub"},
	{`No such file`, "check that the script is where submit of the session says"},
	{`Unauthorized`, "your account may not submit this job: it is not set up, is in the wrong group, or submits from a directory that PBS does not accept: see the guide of the site, and try from your home folder"},
	{`project|account`, "the project is missing, or is not yours: set -P PROJECT in args of the session or in the script; at NSCC, myprojects lists yours"},
})

// pbsDoubt matches failures after the request was sent.
var pbsDoubt = regexp.MustCompile(`(?i)timed? ?out|End of File|Protocol \(ASN|No reply|Broken pipe|Connection reset`)

// pbsReason explains the comment of a waiting job.
func pbsReason(comment string) reason {
	for _, p := range pbsReasons {
		if strings.Contains(comment, p.part) {
			return p.reason
		}
	}
	return reason{}
}

var pbsReasons = []struct {
	part string
	reason
}{
	{"Can Never Run", reason{words: "no node has the requested resources: ask for less", never: true}},
	{"Insufficient amount of resource", reason{words: "waiting for free nodes"}},
	{"Not enough free nodes", reason{words: "waiting for free nodes"}},
	{"Not enough total nodes", reason{words: "the job asks for more nodes than the cluster has: ask for less", never: true}},
	{"Queue not started", reason{words: "the queue starts no jobs now"}},
	{"running job limit", reason{words: "you have reached your job limit; this job starts when another one ends"}},
	{"would exceed", reason{words: "you have reached your limit; the job starts when another one of yours ends"}},
	{"limit reached", reason{words: "you have reached your limit; the job starts when another one of yours ends"}},
	{"Job is requesting an exclusive node", reason{words: "waiting for a free node that is not shared"}},
	{"dedicated time", reason{words: "a maintenance is coming: a shorter walltime may fit before it"}},
	{"Draining system", reason{words: "nodes are being drained for a larger job"}},
	{"starving", reason{words: "nodes are reserved for a job that has waited longer"}},
	{"has higher priority", reason{words: "other jobs have a higher priority"}},
	{"held", reason{words: "the job is held: release it with qrls", held: true, never: true}},
	{"Job held", reason{words: "the job is held: release it with qrls", held: true, never: true}},
}

var pbsNoAnswer = regexp.MustCompile(`(?i)cannot connect to server|Couldn't connect to cluster|Connection refused|Unknown Host|` +
	`timed out|End of File|No default server|Premature end of message`)
