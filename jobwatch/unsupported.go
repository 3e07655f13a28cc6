package jobwatch

import (
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// unsupportedKind is a scheduler that is recognized by its programs and cannot be used yet.
type unsupportedKind struct {
	name, title string
	program     string // the one that the user knows
	installed   string // as in Kind
}

// unsupportedKinds count only on a host that has none of schedulerKinds: many a cluster has
// programs of a second system.
var unsupportedKinds = []unsupportedKind{
	{"lsf", "LSF", "bsub", "has bsub bjobs"},
	{"pjm", "Fujitsu PJM", "pjsub", "has pjsub pjstat"},
	{"htcondor", "HTCondor", "condor_submit", "has condor_submit condor_q"},
	{"oar", "OAR", "oarsub", "has oarsub oarstat"},
	{"loadleveler", "LoadLeveler", "llsubmit", "has llsubmit llq"},
	{"cobalt", "Cobalt", "qsub", "has qsub cqwait partlist"},
	{"moab", "Moab", "msub", "has msub showq"},
	// The program of Flux CD, which is no scheduler, has the same name.
	{"flux", "Flux", "flux", `has flux && case "$(flux_version)" in *libflux-core*) true ;; *) false ;; esac`},
	// A kubectl without a cluster is on many workstations.
	{"kubernetes", "Kubernetes", "kubectl", `has kubectl && test -n "$(kubectl config current-context 2>/dev/null)"`},
}

// unsupportedScript is the sh text that sets s to the unsupported scheduler of the host, if
// it has one. It may use the functions of accountScript.
func unsupportedScript() string {
	text, word := "flux_version() { limited flux version 2>/dev/null </dev/null; }\n", "if"
	for _, k := range unsupportedKinds {
		text += fmt.Sprintf("%s %s; then s=%s\n", word, k.installed, k.name)
		word = "elif"
	}
	return text + "fi"
}

// unsupportedError says which scheduler the host has and what works all the same; nil if it
// is none of unsupportedKinds.
func unsupportedError(host, name string) error {
	for _, k := range unsupportedKinds {
		if k.name != name {
			continue
		}
		return api.Errorf(api.CodeFailed, "%s uses %s (it has %s): tunctl cannot submit or watch jobs there yet",
			host, k.title, k.program).
			WithHint("submit the job yourself, then `tunctl attach %[1]s NODE:PORT` opens its page; `tunctl forward %[1]s`, `tunctl ssh %[1]s` and `tunctl cp` work, too. To run jobs on %[1]s itself, without %[2]s, set scheduler = \"none\" in [host.%[1]s]",
				host, k.title)
	}
	return nil
}

// processError refuses to start a job on a host where no scheduler was found, unless the user has
// said that the host has none: a login node is no place for jobs.
func (h *host) processError(k *sched.Kind) error {
	if !k.JobsAreProcesses || h.wanted != "" {
		return nil
	}
	return api.Errorf(api.CodeNoScheduler, "no scheduler was found on %s: none of %s is on the PATH of your login shell there. Nothing was started", h.name, programs()).
		WithHint("if it is your own machine, set scheduler = \"none\" in [host.%[1]s]: jobs are then processes on it. If %[1]s is a login node, put the scheduler's commands on the PATH of your login shell there", h.name)
}

// programs are the submit commands that are looked for.
func programs() string {
	var names []string
	for _, k := range schedulerKinds {
		if k.Program != "" && !slices.Contains(names, k.Program) {
			names = append(names, k.Program)
		}
	}
	for _, k := range unsupportedKinds[:3] {
		names = append(names, k.program)
	}
	return strings.Join(names, ", ")
}
