package pbs

import (
	"cmp"
	"regexp"
	"strings"

	"tunctl/jobwatch/sched"
)

// refusals are PBS Pro's, OpenPBS's and Torque's; see refusals for their order.
var refusals = sched.RefusalHints([][2]string{
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
var waitReasons = []sched.WaitReason{
	{
		Part: sched.LazyPattern(`Insufficient amount of server resource`), Words: "a resource of the whole server, such as a licence, is in use",
		Never: "the job asks for more of a resource than the whole server has: ask for less",
	},
	{
		Part: sched.LazyPattern(`Insufficient amount of queue resource`), Words: "a resource of the queue is in use",
		Never: "the job asks for more of a resource than its queue has: ask for less, or change -q",
	},
	{Part: sched.LazyPattern(`Insufficient amount of resource|Not enough free nodes|right type of nodes|No available resources on nodes`), Words: "waiting for free nodes", Never: noNodeWords},
	{Part: sched.LazyPattern(`too few free resources`), Words: "waiting for free nodes that belong together"},
	{Part: sched.LazyPattern(`largest placement set`), Never: "no group of nodes that belong together is large enough: ask for fewer nodes"},
	{Part: sched.LazyPattern(`Not enough total nodes`), Never: "the job asks for more nodes than the cluster has: ask for less"},
	{Part: sched.LazyPattern(`in an ineligible state`), Words: "waiting for nodes; some are down or offline"},
	{Part: sched.LazyPattern(`requesting an exclusive node`), Words: "waiting for a free node that is not shared"},
	{
		Part: sched.LazyPattern(`pack placement`), Words: "waiting for one node that has room for the whole job",
		Never: "no node is large enough for the whole job: ask for less, or for place=free",
	},
	{Part: sched.LazyPattern(`Node has reached`), Words: "waiting for a node with fewer jobs"},
	{Part: sched.LazyPattern(`Specified`), Never: "the job names a node or host that does not exist: change its select"},
	{Part: sched.LazyPattern(`No Select|invalid chunk`), Never: "the select of the job is not valid; resources have names in lower case"},

	{Part: sched.LazyPattern(`User has reached|reached for user|exceed user|per-user`), Words: ownLimit},
	{Part: sched.LazyPattern(`Group has reached|reached for group|exceed group|per-group`), Words: groupLimit},
	{Part: sched.LazyPattern(`Project has reached|reached for project|exceed project|per-project`), Words: projectLimit},
	{Part: sched.LazyPattern(`exceed overall limit`), Words: "the queue or the server has reached its limit of all users"},
	{Part: sched.LazyPattern(`Server job limit`), Words: "the server has reached its limit of running jobs"},
	{Part: sched.LazyPattern(`job limit has been reached`), Words: "the queue has reached its limit of running jobs"},
	{Part: sched.LazyPattern(`running job limit`), Words: ownLimit},
	{Part: sched.LazyPattern(`would exceed|limit reached`), Words: "a limit is reached; the job starts when others end"},

	{Part: sched.LazyPattern(`conflict with reservation|would interfere with`), Words: topJob},
	{Part: sched.LazyPattern(`strict sorted order`), Words: "jobs before it in the queue start first"},
	{Part: sched.LazyPattern(`Can't preempt|has higher priority`), Words: "other jobs have a higher priority"},
	{Part: sched.LazyPattern(`job_sort_formula threshold`), Words: "the priority of the job is too low yet; it may rise while the job waits"},
	{Part: sched.LazyPattern(`zero shares`), Words: "your group or project has no share of the machine: ask the site, or change -P"},
	{Part: sched.LazyPattern(`edicated time`), Words: "a maintenance is coming: a shorter walltime may fit before it"},
	{Part: sched.LazyPattern(`primetime`), Words: certainHours},
	{Part: sched.LazyPattern(`Queue not started`), Words: "the queue starts no jobs now"},
	{Part: sched.LazyPattern(`Draining system`), Words: "nodes are being drained for a larger job"},
	{Part: sched.LazyPattern(`starving`), Words: "nodes are reserved for a job that has waited longer"},
	{Part: sched.LazyPattern(`PBS Error`), Words: "PBS could not start the job, and tries again; if this stays, ask the site"},
	{Part: sched.LazyPattern(`held`), Never: "the job is held: release it with qrls"},
}

var noAnswer = regexp.MustCompile(`(?i)cannot connect to server|Couldn't connect to cluster|Connection refused|Unknown Host|` +
	`timed out|End of File|No default server|Premature end of message`)
