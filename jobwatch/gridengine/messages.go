package gridengine

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// complaint is what qsub writes around its message.
var complaint = regexp.MustCompile(`(?m)^(?:Unable to run job: |Exiting\.$)`)

// refusals are those of all versions; see refusals for their order.
var refusals = sched.Messages([][3]string{
	{`Connection refused|qmaster|commlib|can't resolve .*qmaster`, "the Grid Engine server is down, or its name is wrong: try again later"},
	{`unknown queue`, "the queue does not exist: change -q; qconf -sql lists the queues"},
	{`unknown resource`, "the resource does not exist: change -l; qconf -sc lists the resources"},
	{`parallel environment .* does not exist|unknown parallel environment`, "the parallel environment does not exist: change -pe; qconf -spl lists them"},
	{`project .* does not exist|unknown project|not allowed .*project|no access to project`, "the project does not exist or is not yours: change -P; qconf -sprjl lists the projects"},
	{`project`, "the site requires a project: set -P PROJECT in args of the session or in the script"},
	{`is not a time value`, "write the time as -l h_rt=HH:MM:SS"},
	{`is not a memory value`, "write memory as 8G or 512M, without a B"},
	{`valid object name|argument to -N`, "Grid Engine does not accept the job name: change -N; it must not begin with a digit or contain / : @ * ?"},
	{`no suitable queues`, "no queue has what the job asks for: ask for less time, memory, cores or GPUs, or change -q; qsub -w v says which queue lacks what"},
	{`could not be scheduled`, "-now y accepts no waiting: remove it"},
	{`per user|job limit|max_u?_?jobs|maximum (?:number|user)`, "you have reached your job limit: wait for one to end, or cancel one"},
	{`invalid option|Unknown option|Numerical value|ERROR! `, "an option in the script or in args of the session is wrong: see man qsub"},
	{`can't resolve hostname`, "the host in -l h= or -q does not exist"},
	{`No such file|error opening`, "check that the script is where submit of the session says"},
})

// doubt matches failures after the request may have reached the server. A refused connection
// cannot.
var doubt = regexp.MustCompile(`(?i)failed receiving gdi|receive timeout|got read error|timed? ?out`)

var (
	noAnswer = regexp.MustCompile(`(?i)commlib error|unable to (?:send message to|contact) qmaster|cannot contact qmaster|failed receiving gdi|receive timeout|got (?:select|send|read) error|can't find qmaster|qmaster host .* can't be resolved`)
	noJob    = regexp.MustCompile(`(?i)jobs? (?:id )?"?[\d.]*"?,? ?(?:does not exist|not found)|jobs do not exist|already in deletion`)
	noHost   = regexp.MustCompile(`(?i)is no(?:t a)? submit host|is neither submit nor admin host|is not an admin host`)
)

// parseVerification reads the answer of qalter -w v; nil if it is none.
func parseVerification(res remote.Result) *sched.Reason {
	var lines []string
	for line := range strings.Lines(string(res.Stdout) + "\n" + string(res.Stderr)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "verification: found"):
			return &sched.Reason{}
		case strings.HasPrefix(line, "verification: no suitable"):
			w, _ := sched.BestMatch(waitReasons, lines...)
			return &sched.Reason{Words: cmp.Or(w.Never, "no queue has what the job asks for: ask for less time, memory, cores or GPUs, or change -q"), Never: true}
		}
		lines = append(lines, line)
	}
	return nil
}

// started: the job does not wait any more, so that there is no verdict.
var started = regexp.MustCompile(`already running or is held`)

// waitReasons are known messages, the most telling first. One that is not here, as "not contained
// in its hard queue list", is about queues that the job did not ask for.
var waitReasons = sched.Messages([][3]string{
	{`execution time not reached`, "the job has a start time that is not reached yet"},
	{`job dependencies`, "waiting for another job to end"},
	{`max_aj_instances|task concurrency`, "the array runs as many tasks at once as it asked for"},
	{`exceeds limit`, "you have reached a limit of the site; the job starts when another one ends", "the job asks for more than a limit of the site allows: ask for less; qquota shows the limits"},
	{`until clean up of a previous run`, "waiting until the node has cleaned up the previous run"},
	{`offers only (?:h[cl]|g[cl]|q[cl]):slots=|only offers \d+ slots`, "waiting for free cores", "the job asks for more cores (-pe) than a node or queue has: ask for less"},
	{`because it offers only`, "waiting for free resources, such as memory or GPUs", "the job asks for more of a resource, such as memory or GPUs, than any node has: ask for less"},
	{`because of cluster queue`, "the queue does not offer what the job asks for, such as so much time", "the job asks for more time or resources than its queue allows: ask for less, or change -q"},
	{`requests unknown resource`, "no queue offers a resource that the job asks for", "no queue offers a resource that the job asks for: change -l"},
	{`has no permission for`, "you may not use the queue", "you may not use the queue that the job asks for: change -q, or ask the site"},
	{`dropped because it is full`, "waiting for free cores"},
	{`dropped because it is overloaded`, "the nodes are too busy now; the job starts when their load falls"},
	{`dropped because it is (?:disabled|suspended)`, "the queue starts no jobs now"},
	{`temporarily not available`, "the nodes of the queue are not available now"},
})

var noPermission = regexp.MustCompile(`has no permission for .*"([^"]*)"`)

// explainWait says why the job waits. The scheduler's messages list all queues that do not fit
// now; whether one could fit at all is in the verdict.
func (k *knownJob) explainWait(job *api.Job, row row) {
	lines := slices.DeleteFunc(slices.Clone(k.record.messages), func(line string) bool {
		m := noPermission.FindStringSubmatch(line) // for a queue that the job did not ask for
		return m != nil && !slices.Contains(row.queues, m[1])
	})
	w, line := sched.BestMatch(waitReasons, lines...)
	job.Reason, job.Hint = line, w.Words
	if k.verification != nil && k.verification.Never {
		job.Hint = k.verification.Hint()
	}
}
