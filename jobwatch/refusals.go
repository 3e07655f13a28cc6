package jobwatch

import (
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// refusalHint is a known refusal and the way out.
type refusalHint struct {
	words *regexp.Regexp
	hint  string
}

// refusal is the scheduler's no, in its own words, with a hint where we know one.
func refusal(a answer, known []refusalHint) error {
	words := complaints(a)
	err := &api.Error{Code: api.CodeSubmit, Message: "the job was refused: " + words}
	for _, k := range known {
		if k.words.MatchString(words) {
			err.Hint = k.hint
			break
		}
	}
	return err
}

var complaintPrefix = regexp.MustCompile(`^(?:sbatch|qsub): (?:error: )?`)

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
	return api.Redact(api.NewRemoteText(strings.Join(lines, "; ")).FirstLine(600).String())
}

func hints(pairs ...string) []refusalHint {
	list := make([]refusalHint, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, refusalHint{regexp.MustCompile(`(?i)` + pairs[i]), pairs[i+1]})
	}
	return list
}

// slurmRefusals are looked through in order; sites' own submit filters word theirs
// freely, so that the patterns are loose.
var slurmRefusals = hints(
	`Unable to contact slurm controller|configuration source`, "the scheduler is down: try again later",
	`Invalid account|account.*(?:required|specify|missing)|(?:specify|missing|must).*account`,
	`set --account in the session's args or the script; sacctmgr show assoc user=$USER lists yours`,
	`(?:gpu|gres).*(?:required|specify|must|missing|mandatory)|(?:specify|must request|missing).*(?:gpu|gres)`,
	"say how many GPUs, for example --gres=gpu:1, in the session's args or the script",
	`Invalid partition|partition.*not (?:exist|valid)`, "change --partition; sinfo lists them",
	`Invalid qos`, "change --qos, or leave it out",
	`time limit|--time|walltime|Requested time`, "set --time within the partition's limit; sinfo shows it",
	`Requested node configuration is not available|Memory specification`, "no node has that much: ask for less memory, fewer GPUs or another partition",
	`Invalid generic resource|Invalid gres`, "the site names its GPUs otherwise: sinfo -o %G shows how",
	`Invalid feature|constraint`, "change --constraint; sinfo -o %f lists the features",
	`QOSMaxSubmitJob|AssocMaxSubmitJob|violates accounting/QOS policy|job submit limit`, "you have too many jobs already, or ask for more than your account may have",
	`unrecognized option|Invalid --`, "an option in the script or the session's args is wrong",
	`DOS line breaks`, "the script has Windows line ends",
	`does not look like a batch script|first.*line must start with #!`, "the script must begin with #!/bin/bash or the like",
	`script is empty`, "the job script is empty or a folder",
	`Unable to open file|No such file`, "see that the script is where the session says",
	`authentication error|Munge`, "Slurm's authentication on this login node is broken: tell the site, or try another login node",
)

var pbsRefusals = hints(
	`project|account`, "set -P PROJECT in the session's args or the script; at NSCC, myprojects lists yours",
	`Unknown queue|Queue is not enabled`, "change -q; qstat -Q lists the queues",
	`Access to queue is denied|Unauthorized`, "you may not use this queue, or only through a routing queue: change -q",
	`violates queue and/or server resource limits`, "it asks for more than the queue gives: lower walltime, CPUs, memory or GPUs, or change -q",
	`would exceed`, "you have as many jobs as you may: wait for one to end, or cancel one",
	`walltime`, "write walltime as HH:MM:SS within the queue's limit",
	`Unknown resource|Illegal attribute or resource`, "a resource in -l is wrong: see the site's guide",
	`cannot be used with "select"`, "use either -l select=… or the old -l ncpus=… form, not both",
	`illegal -N|name is too long`, "the job's name has characters PBS does not take, or is too long",
	`invalid option|directive error|illegal -`, "an option in the script or the session's args is wrong",
	`cr, lf`, "the script has Windows line ends",
	`No such file`, "see that the script is where the session says",
	`cannot connect|Connection refused|Unknown Host`, "the scheduler is down: try again later",
	`Bad UID`, "PBS does not take jobs from this user or this login node",
)
