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
	{`Maximum number of jobs for user`, "you have reached your limit of jobs: wait for one to end, or cancel one"},
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

// pbsDoubt matches failures after the request was sent.
var pbsDoubt = regexp.MustCompile(`(?i)timed? ?out|End of File|Protocol \(ASN|No reply|Broken pipe|Connection reset`)

// pbsReason explains the comment of a waiting job: "Not Running: …" or "Can Never Run: …". Comments
// that say nothing to a person stay as PBS has them.
func pbsReason(comment string) reason {
	_, never := strings.CutPrefix(comment, "Can Never Run")
	for _, p := range pbsReasons {
		if !strings.Contains(comment, p.part) {
			continue
		}
		r := p.reason
		if r.never = r.never || never; never && p.forever != "" {
			r.words = p.forever
		}
		return r
	}
	if never {
		return reason{words: noNodeWords, never: true}
	}
	return reason{}
}

const (
	freeNodesWords = "waiting for free nodes"
	noNodeWords    = "no node has the requested resources: ask for less"
	ownLimit       = "you have reached your limit; the job starts when another one of yours ends"
	groupLimit     = "your group has reached its limit; the job starts when another one of the group ends"
	projectLimit   = "your project has reached its limit; the job starts when another one of the project ends"
	topJob         = "the nodes are kept for a reservation or for a job with a higher priority: a shorter walltime may start sooner"
	certainHours   = "such jobs run only at certain hours: a shorter walltime or another queue may start sooner"
)

// pbsReasons are parts of comments of OpenPBS's scheduler, and of others, in the order to try
// them. forever are the words if the job can never run.
var pbsReasons = []struct {
	part, forever string
	reason
}{
	{"Insufficient amount of server resource", "the job asks for more of a resource than the whole server has: ask for less", reason{words: "a resource of the whole server, such as a licence, is in use"}},
	{"Insufficient amount of queue resource", "the job asks for more of a resource than its queue has: ask for less, or change -q", reason{words: "a resource of the queue is in use"}},
	{"Insufficient amount of resource", noNodeWords, reason{words: freeNodesWords}},
	{"too few free resources", "", reason{words: "waiting for free nodes that belong together"}},
	{"largest placement set", "", reason{words: "no group of nodes that belong together is large enough: ask for fewer nodes", never: true}},
	{"Not enough total nodes", "", reason{words: "the job asks for more nodes than the cluster has: ask for less", never: true}},
	{"Not enough free nodes", noNodeWords, reason{words: freeNodesWords}},
	{"right type of nodes", noNodeWords, reason{words: freeNodesWords}},
	{"No available resources on nodes", noNodeWords, reason{words: freeNodesWords}},
	{"in an ineligible state", "", reason{words: "waiting for nodes; some are down or offline"}},
	{"requesting an exclusive node", "", reason{words: "waiting for a free node that is not shared"}},
	{"pack placement", "no node is large enough for the whole job: ask for less, or for place=free", reason{words: "waiting for one node that has room for the whole job"}},
	{"Node has reached", "", reason{words: "waiting for a node with fewer jobs"}},
	{"Specified", "", reason{words: "the job names a node or host that does not exist: change its select", never: true}},
	{"No Select", "", reason{words: "the select of the job is not valid; resources have names in lower case", never: true}},
	{"invalid chunk", "", reason{words: "the select of the job is not valid; resources have names in lower case", never: true}},

	{"User has reached", "", reason{words: ownLimit}},
	{"Group has reached", "", reason{words: groupLimit}},
	{"Project has reached", "", reason{words: projectLimit}},
	{"reached for user", "", reason{words: ownLimit}},
	{"reached for group", "", reason{words: groupLimit}},
	{"reached for project", "", reason{words: projectLimit}},
	{"exceed user", "", reason{words: ownLimit}},
	{"exceed group", "", reason{words: groupLimit}},
	{"exceed project", "", reason{words: projectLimit}},
	{"per-user", "", reason{words: ownLimit}},
	{"per-group", "", reason{words: groupLimit}},
	{"per-project", "", reason{words: projectLimit}},
	{"exceed overall limit", "", reason{words: "the queue or the server has reached its limit of all users"}},
	{"Server job limit", "", reason{words: "the server has reached its limit of running jobs"}},
	{"job limit has been reached", "", reason{words: "the queue has reached its limit of running jobs"}},
	{"running job limit", "", reason{words: ownLimit}},
	{"would exceed", "", reason{words: "a limit is reached; the job starts when others end"}},
	{"limit reached", "", reason{words: "a limit is reached; the job starts when others end"}},

	{"conflict with reservation", "", reason{words: topJob}},
	{"would interfere with", "", reason{words: topJob}},
	{"strict sorted order", "", reason{words: "jobs before it in the queue start first"}},
	{"Can't preempt", "", reason{words: "other jobs have a higher priority"}},
	{"has higher priority", "", reason{words: "other jobs have a higher priority"}},
	{"job_sort_formula threshold", "", reason{words: "the priority of the job is too low yet; it may rise while the job waits"}},
	{"zero shares", "", reason{words: "your group or project has no share of the machine: ask the site, or change -P"}},
	{"edicated time", "", reason{words: "a maintenance is coming: a shorter walltime may fit before it"}},
	{"primetime", "", reason{words: certainHours}},
	{"Queue not started", "", reason{words: "the queue starts no jobs now"}},
	{"Draining system", "", reason{words: "nodes are being drained for a larger job"}},
	{"starving", "", reason{words: "nodes are reserved for a job that has waited longer"}},
	{"PBS Error", "", reason{words: "PBS could not start the job, and tries again; if this stays, ask the site"}},
	{"held", "", reason{words: "the job is held: release it with qrls", held: true, never: true}},
}

var pbsNoAnswer = regexp.MustCompile(`(?i)cannot connect to server|Couldn't connect to cluster|Connection refused|Unknown Host|` +
	`timed out|End of File|No default server|Premature end of message`)
