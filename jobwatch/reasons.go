package jobwatch

import "strings"

// reason is why a job does not run, in words.
type reason struct {
	words string
	held  bool
	// never: waiting does not help; somebody has to do something.
	never bool
}

func (r reason) hint() string {
	if r.never && !r.held {
		return "the job will never start as submitted: " + strings.Replace(r.words, "the job asks", "it asks", 1)
	}
	return r.words
}

// slurmReason explains Slurm's word for why a job waits.
func slurmReason(word string) reason {
	word = strings.ReplaceAll(word, "_", " ")
	if r, ok := slurmReasons[word]; ok {
		return r
	}
	for _, p := range slurmReasonParts {
		if strings.HasPrefix(word, p.prefix) && strings.HasSuffix(word, p.suffix) {
			return p.reason
		}
	}
	return reason{}
}

var slurmReasons = map[string]reason{
	"Resources":                   {words: "waiting for free nodes"},
	"Priority":                    {words: "other jobs have a higher priority"},
	"BeginTime":                   {words: "the start time is not reached yet; a requeued job waits two minutes"},
	"Dependency":                  {words: "waiting for another job to end"},
	"DependencyNeverSatisfied":    {words: "the job that this job depends on did not end as required: cancel this job and submit it again", never: true},
	"JobHeldUser":                 {words: "held by you: release it with scontrol release", held: true, never: true},
	"JobHeldAdmin":                {words: "held by an administrator: ask the site", held: true, never: true},
	"JobHoldMaxRequeue":           {words: "held after too many requeues: find out why the runs ended", held: true, never: true},
	"PartitionDown":               {words: "the partition is down"},
	"PartitionInactive":           {words: "the partition starts no jobs now"},
	"PartitionConfig":             {words: "no node of the partition has the requested resources: change --partition, or ask for less", never: true},
	"PartitionNodeLimit":          {words: "the job asks for more nodes than the partition allows: lower --nodes, or change --partition", never: true},
	"PartitionTimeLimit":          {words: "the job asks for more time than the partition allows: lower --time, or change --partition", never: true},
	"AccountNotAllowed":           {words: "your account may not use this partition: change --account or --partition", never: true},
	"InvalidAccount":              {words: "the account is not valid: set --account", never: true},
	"InvalidQOS":                  {words: "the QOS is not valid: change --qos", never: true},
	"QOSNotAllowed":               {words: "the QOS is not allowed here: change --qos or --partition", never: true},
	"BadConstraints":              {words: "no node satisfies the constraints: change --constraint, or ask for less", never: true},
	"ReservationDeleted":          {words: "the reservation was deleted: submit without --reservation", never: true},
	"Reservation":                 {words: "waiting for the reservation to begin"},
	"Licenses":                    {words: "waiting for a licence"},
	"JobArrayTaskLimit":           {words: "the array has reached its limit of simultaneous tasks"},
	"Cleaning":                    {words: "the previous run is being cleaned up"},
	"Prolog":                      {words: "the nodes are being prepared, which can take many minutes"},
	"NodeDown":                    {words: "a required node is down"},
	"SystemFailure":               {words: "Slurm reports a system failure: ask the site"},
	"MaxPowerAvail":               {words: "the power budget of the cluster is used up"},
	"None":                        {},
	"launch failed requeued held": {words: "held after the launch failed: release it with scontrol release", held: true, never: true},
	"job requeued in held state":  {words: "requeued and held: release it with scontrol release", held: true, never: true},
	"AssocMaxJobsLimit":           {words: "you have reached your job limit; this job starts when another one ends"},
	"QOSMaxJobsPerUserLimit":      {words: "you have reached the job limit of this QOS; this job starts when another one ends"},
	"AssociationJobLimit":         {words: "you have reached your job limit; this job starts when another one ends"},
	"QOSJobLimit":                 {words: "this QOS has reached its job limit"},
	"QOSResourceLimit":            {words: "you have reached the resource limit of this QOS"},
	"AssocGrpJobsLimit":           {words: "your group has reached its job limit; this job starts when another one ends"},
}

// slurmReasonParts cover the families, most telling first. A limit per job cannot be
// met by waiting; a used-up allocation does not refill while one waits.
var slurmReasonParts = []struct {
	prefix, suffix string
	reason
}{
	{"", "MinutesLimit", reason{words: "the allocation is used up: check your quota, or use another account", never: true}},
	{"", "Minutes", reason{words: "the allocation is used up: check your quota, or use another account", never: true}},
	{"", "PerJobLimit", reason{words: "the job asks for more than one job may use: ask for less, or change --qos", never: true}},
	{"", "PerJob", reason{words: "the job asks for more than one job may use: ask for less, or change --qos", never: true}},
	{"", "PerNode", reason{words: "the job asks for more per node than one job may use: ask for less", never: true}},
	{"QOSMaxWall", "", reason{words: "the job asks for more time than the QOS allows: lower --time", never: true}},
	{"AssocMaxWall", "", reason{words: "the job asks for more time than you may use: lower --time", never: true}},
	{"QOSMin", "", reason{words: "the job asks for less than the QOS requires, often a number of GPUs: see the rules of the site", never: true}},
	{"QOSMax", "PerUserLimit", reason{words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"QOSMax", "PerUser", reason{words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"QOSGrp", "", reason{words: "this QOS has reached its limit for all users"}},
	{"QOSMax", "", reason{words: "you have reached the limit of this QOS; the job starts when another one of yours ends"}},
	{"AssocGrp", "", reason{words: "your group has reached its limit; the job starts when another one of the group ends"}},
	{"Assoc", "", reason{words: "you have reached the limit of your account; the job starts when another one of yours ends"}},
	{"MaxJobsPer", "", reason{words: "you have reached your job limit; this job starts when another one ends"}},
	{"ReqNodeNotAvail, Reserved", "", reason{words: "the nodes are reserved, often for a maintenance: a shorter --time may fit before it"}},
	{"ReqNodeNotAvail", "", reason{words: "the requested nodes are down, drained or reserved: a shorter --time or other nodes may help"}},
	{"Nodes required for job are DOWN", "", reason{words: "waiting for nodes; some are down, or reserved for jobs with a higher priority"}},
	{"Job's account not permitted", "", reason{words: "your account may not use this partition: change --account or --partition", never: true}},
	{"Job's QOS not permitted", "", reason{words: "the QOS is not allowed in this partition: change --qos or --partition", never: true}},
	{"Reserved for maintenance", "", reason{words: "a maintenance is coming: a shorter --time may fit before it"}},
}

// pbsReason explains the comment of a PBS job that waits.
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
