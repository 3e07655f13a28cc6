package pbs

import (
	"cmp"
	"regexp"
	"strings"

	"tunctl/jobwatch/sched"
)

// refusals are PBS Pro's, OpenPBS's and Torque's; see refusals for their order.
var refusals = sched.Messages([][3]string{
	{`Access from host not allowed|ruserok|Bad UID|on compute nodes?`, sched.FromLogin},
	{`cannot connect|Connection refused|Unknown Host`, "the PBS server is down, or its name is wrong: try again later"},
	{`Failed to save job`, "the PBS server cannot save the job: tell the site"},
	{`cr, lf|DOS/Windows`, sched.WindowsLines},

	{`group ACL`, "your group may not use the queue: change -q, or ask the site"},
	{`user ACL`, "you may not use the queue: change -q, or ask the site"},
	{`No default queue|requested queue not found|Unknown queue`, "the queue is missing or does not exist: set -q; qstat -Q lists the queues"},
	{`Queue is not enabled`, "the queue accepts no jobs now: change -q, or try again later; qstat -Q lists the queues"},
	{`Access to queue is denied`, "you may not use this queue, or only through a routing queue: change -q"},
	{`rejected by all possible destinations`, "no queue accepts a job of this size or walltime, or the queue is missing: set -q; see the queues in the guide of the site"},
	{`cannot locate feasible nodes|exceeds queue resource limits`, "no node of the queue has the requested resources: ask for less, or change -q"},
	{`violates queue and/or server resource limits`, "the job asks for more walltime, CPUs, memory or nodes than the queue allows: ask for less, or change -q"},
	{`would exceed .*limit on resource`, "you have reached your limit of this resource: wait for a job to end, or ask for less"},
	{`would exceed .*per-(?:project|group)`, "your project has reached its job limit: wait for one to end"},
	{`would exceed .*'Q' state`, "you have reached your limit of queued jobs: wait for one to start, or cancel one"},
	{`would exceed|Maximum number of jobs for user`, "you have reached your job limit: wait for one to end, or cancel one"},
	{`Maximum number of jobs for (?:group|project)`, "your group or project has reached its limit of jobs: wait for one to end, or cancel one"},
	{`Maximum number of jobs already in complex`, "the server has reached its limit of jobs of all users: try again later"},
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
	{`Unauthorized`, "you may not use this queue: change -q; qstat -Qf shows its acl_users and acl_groups. Or your account is not set up, or submits from a directory that PBS does not accept: try from your home folder"},
	{`project|account`, "the project is missing, or is not yours: set -P PROJECT in args of the session or in the script; the guide of the site says how to list yours"},
})

// doubt matches failures after the request was sent.
var doubt = regexp.MustCompile(`(?i)timed? ?out|End of File|Protocol \(ASN|No reply|Broken pipe|Connection reset`)

// reasonFor explains the comment of a waiting job: "Not Running: …" or "Can Never Run: …". Comments
// that say nothing to the user stay as PBS has them.
func reasonFor(comment string) sched.Reason {
	r, _ := sched.BestMatch(waitReasons, comment)
	if !strings.HasPrefix(comment, "Can Never Run") && (r.Words != "" || r.Never == "") {
		return sched.Reason{Words: r.Words}
	}
	return sched.Reason{Words: cmp.Or(r.Never, r.Words, noNodeWords), Never: true}
}

const (
	noNodeWords  = "no node has the requested resources: ask for less"
	ownLimit     = "you have reached your limit; the job starts when another one of yours ends"
	groupLimit   = "your group has reached its limit; the job starts when another one of the group ends"
	projectLimit = "your project has reached its limit; the job starts when another one of the project ends"
	topJob       = "the nodes are kept for a reservation or for a job with a higher priority: a shorter walltime may start sooner"
	certainHours = "such jobs run only at certain hours: a shorter walltime or another queue may start sooner"
)

// waitReasons are parts of comments of OpenPBS's scheduler, and of others, in the order to try
// them.
var waitReasons = sched.Messages([][3]string{
	{`Insufficient amount of server resource`, "a resource of the whole server, such as a licence, is in use", "the job asks for more of a resource than the whole server has: ask for less"},
	{`Insufficient amount of queue resource`, "a resource of the queue is in use", "the job asks for more of a resource than its queue has: ask for less, or change -q"},
	{`Insufficient amount of resource|Not enough free nodes|right type of nodes|No available resources on nodes`, "waiting for free nodes", noNodeWords},
	{`too few free resources`, "waiting for free nodes that belong together"},
	{`largest placement set`, "", "no group of nodes that belong together is large enough: ask for fewer nodes"},
	{`Not enough total nodes`, "", "the job asks for more nodes than the cluster has: ask for less"},
	{`in an ineligible state`, "waiting for nodes; some are down or offline"},
	{`requesting an exclusive node`, "waiting for a free node that is not shared"},
	{`pack placement`, "waiting for one node that has room for the whole job", "no node is large enough for the whole job: ask for less, or for place=free"},
	{`Node has reached`, "waiting for a node with fewer jobs"},
	{`Specified`, "", "the job names a node or host that does not exist: change its select"},
	{`No Select|invalid chunk`, "", "the select of the job is not valid; resources have names in lower case"},

	{`User has reached|reached for user|exceed user|per-user`, ownLimit},
	{`Group has reached|reached for group|exceed group|per-group`, groupLimit},
	{`Project has reached|reached for project|exceed project|per-project`, projectLimit},
	{`exceed overall limit`, "the queue or the server has reached its limit of all users"},
	{`Server job limit`, "the server has reached its limit of running jobs"},
	{`job limit has been reached`, "the queue has reached its limit of running jobs"},
	{`running job limit`, ownLimit},
	{`would exceed|limit reached`, "a limit is reached; the job starts when others end"},

	{`conflict with reservation|would interfere with`, topJob},
	{`strict sorted order`, "jobs before it in the queue start first"},
	{`Can't preempt|has higher priority`, "other jobs have a higher priority"},
	{`job_sort_formula threshold`, "the priority of the job is too low yet; it may rise while the job waits"},
	{`zero shares`, "your group or project has no share of the machine: ask the site, or change -P"},
	{`edicated time`, "a maintenance is coming: a shorter walltime may fit before it"},
	{`primetime`, certainHours},
	{`Queue not started`, "the queue starts no jobs now"},
	{`Draining system`, "nodes are being drained for a larger job"},
	{`starving`, "nodes are reserved for a job that has waited longer"},
	{`PBS Error`, "PBS could not start the job, and tries again; if this stays, ask the site"},
	{`held`, "", "the job is held: release it with qrls"},
})

var noAnswer = regexp.MustCompile(`(?i)cannot connect to server|Couldn't connect to cluster|Connection refused|Unknown Host|` +
	`timed out|End of File|No default server|Premature end of message`)
