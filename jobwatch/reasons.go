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
	if r.never {
		return "will not start by waiting: " + r.words
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
	"Resources":                   {words: "waits for nodes to become free"},
	"Priority":                    {words: "other jobs come first"},
	"BeginTime":                   {words: "its time to begin has not come; a requeued job waits two minutes"},
	"Dependency":                  {words: "waits for another job to end"},
	"DependencyNeverSatisfied":    {words: "the job it depends on did not end as required: cancel it and submit again", never: true},
	"JobHeldUser":                 {words: "held by yourself: release it with scontrol release", held: true, never: true},
	"JobHeldAdmin":                {words: "held by an administrator: ask the site", held: true, never: true},
	"JobHoldMaxRequeue":           {words: "held after being requeued too often: see why its runs ended", held: true, never: true},
	"PartitionDown":               {words: "the partition takes no jobs at the moment"},
	"PartitionInactive":           {words: "the partition starts no jobs at the moment"},
	"PartitionConfig":             {words: "no node of the partition has what the job asks for: change the partition or ask for less", never: true},
	"PartitionNodeLimit":          {words: "it asks for more nodes than the partition gives to a job", never: true},
	"PartitionTimeLimit":          {words: "it asks for more time than the partition gives: shorten --time or change the partition", never: true},
	"AccountNotAllowed":           {words: "your account may not use this partition: change --account or --partition", never: true},
	"InvalidAccount":              {words: "the account is not valid: set --account", never: true},
	"InvalidQOS":                  {words: "the QOS is not valid: change --qos", never: true},
	"QOSNotAllowed":               {words: "the QOS is not allowed here: change --qos or --partition", never: true},
	"BadConstraints":              {words: "no node can satisfy its constraints: change --constraint or what it asks for", never: true},
	"ReservationDeleted":          {words: "its reservation is gone: submit without --reservation", never: true},
	"Reservation":                 {words: "waits for its reservation to begin"},
	"Licenses":                    {words: "waits for a licence"},
	"JobArrayTaskLimit":           {words: "the array's own limit of tasks at a time is reached"},
	"Cleaning":                    {words: "its former run is being cleaned up"},
	"Prolog":                      {words: "the nodes are being prepared, which can take many minutes"},
	"NodeDown":                    {words: "a node it needs is down"},
	"SystemFailure":               {words: "Slurm itself has a problem: ask the site"},
	"MaxPowerAvail":               {words: "the machine's power budget is used up for now"},
	"None":                        {},
	"launch failed requeued held": {words: "its start failed and it is held: release it with scontrol release", held: true, never: true},
	"job requeued in held state":  {words: "requeued and held: release it with scontrol release", held: true, never: true},
	"AssocMaxJobsLimit":           {words: "you have as many jobs as you may; it starts when one of them ends"},
	"QOSMaxJobsPerUserLimit":      {words: "you have as many jobs as this QOS allows; it starts when one of them ends"},
	"AssociationJobLimit":         {words: "you have as many jobs as you may; it starts when one of them ends"},
	"QOSJobLimit":                 {words: "this QOS runs as many jobs as it may"},
	"QOSResourceLimit":            {words: "this QOS has no more resources for you now"},
	"AssocGrpJobsLimit":           {words: "your group runs as many jobs as it may; it starts when one of them ends"},
}

// slurmReasonParts cover the families, most telling first. A limit per job cannot be
// met by waiting; a used-up allocation does not refill while one waits.
var slurmReasonParts = []struct {
	prefix, suffix string
	reason
}{
	{"", "MinutesLimit", reason{words: "the allocation's hours are used up: see your quota, or use another account", never: true}},
	{"", "Minutes", reason{words: "the allocation's hours are used up: see your quota, or use another account", never: true}},
	{"", "PerJobLimit", reason{words: "it asks for more than one job may have: ask for less, or change the QOS", never: true}},
	{"", "PerJob", reason{words: "it asks for more than one job may have: ask for less, or change the QOS", never: true}},
	{"", "PerNode", reason{words: "it asks for more on a node than one job may have: ask for less", never: true}},
	{"QOSMaxWall", "", reason{words: "it asks for more time than the QOS gives: shorten --time", never: true}},
	{"AssocMaxWall", "", reason{words: "it asks for more time than you may have: shorten --time", never: true}},
	{"QOSMin", "", reason{words: "it asks for less than the QOS requires: see the site's rules, often a GPU count", never: true}},
	{"QOSMax", "PerUserLimit", reason{words: "you use as much as this QOS allows; it starts when a job of yours ends"}},
	{"QOSMax", "PerUser", reason{words: "you use as much as this QOS allows; it starts when a job of yours ends"}},
	{"QOSGrp", "", reason{words: "everybody in this QOS together uses as much as it may"}},
	{"QOSMax", "", reason{words: "you use as much as this QOS allows; it starts when a job of yours ends"}},
	{"AssocGrp", "", reason{words: "your group together uses as much as it may; it starts when one of its jobs ends"}},
	{"Assoc", "", reason{words: "you use as much as your account allows; it starts when a job of yours ends"}},
	{"MaxJobsPer", "", reason{words: "you have as many jobs as you may; it starts when one of them ends"}},
	{"ReqNodeNotAvail, Reserved", "", reason{words: "the nodes are reserved, often for maintenance: a shorter --time may fit before it"}},
	{"ReqNodeNotAvail", "", reason{words: "the nodes it asks for are down, drained or reserved: a shorter --time or other nodes may help"}},
	{"Nodes required for job are DOWN", "", reason{words: "waits for nodes; some are down or kept for jobs that come first"}},
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
	{"Can Never Run", reason{words: "no node has what the job asks for: ask for less", never: true}},
	{"Insufficient amount of resource", reason{words: "waits for nodes to become free"}},
	{"Not enough free nodes", reason{words: "waits for nodes to become free"}},
	{"Not enough total nodes", reason{words: "the machine has fewer nodes than the job asks for: ask for less", never: true}},
	{"Queue not started", reason{words: "the queue starts no jobs at the moment"}},
	{"running job limit", reason{words: "you run as many jobs as you may; it starts when one of them ends"}},
	{"would exceed", reason{words: "you use as much as you may; it starts when a job of yours ends"}},
	{"limit reached", reason{words: "you use as much as you may; it starts when a job of yours ends"}},
	{"Job is requesting an exclusive node", reason{words: "waits for a whole node to become free"}},
	{"dedicated time", reason{words: "a maintenance is coming: a shorter walltime may fit before it"}},
	{"Draining system", reason{words: "the machine is kept free for a bigger job"}},
	{"starving", reason{words: "the machine is kept free for a job that has waited long"}},
	{"has higher priority", reason{words: "other jobs come first"}},
	{"held", reason{words: "it is held: release it with qrls", held: true, never: true}},
	{"Job held", reason{words: "it is held: release it with qrls", held: true, never: true}},
}
