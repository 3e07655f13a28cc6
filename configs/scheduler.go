package configs

import (
	"regexp"
	"slices"
	"strings"
)

// dialect is how a builtin job is written for one scheduler.
type dialect struct {
	name   string // in the config
	prefix string // of a line of the script that the scheduler reads; "" if there are none
	// header is what every script tells the scheduler: the job's {name} and its log.
	header  []string
	begin   string // the first commands of a script; {logs} is the folder of a log that it redirects
	profile string // those before them, in a login shell
	// jobName is the nearest name that the scheduler accepts.
	jobName func(name string) string
}

// dialects are those of all schedulers, in the order to show them; the last is that of noScheduler.
var dialects = []dialect{
	{
		name: "slurm", prefix: "#SBATCH ", jobName: anyName, header: []string{"--job-name={name}", "--output=%x.%j.log"},
		begin: privateLog + "\n" + srunCPUs,
	},
	{
		// PBS ignores the script's first line and starts the login shell, which may be csh.
		name: "pbs", prefix: "#PBS ", jobName: pbsName, header: []string{"-N {name}", "-S /bin/bash", "-j oe"},
		begin: "cd \"$PBS_O_WORKDIR\" || exit\nmkdir -p \"{logs}\" && exec >>\"{logs}/$PBS_JOBNAME.$PBS_JOBID.log\" 2>&1",
	},
	{
		// A queue may ignore the script's first line and start its own shell, hence -S.
		name: "gridengine", prefix: "#$ ", jobName: noDigitFirst,
		header:  []string{"-N {name}", "-S /bin/bash", "-cwd", "-j y", "-o $JOB_NAME.$JOB_ID.log"},
		profile: "# shellcheck source=/dev/null\nshopt -q login_shell || { . /etc/profile; umask 077; }\n",
		begin:   privateLog,
	},
	{name: noScheduler, jobName: anyName},
}

// noScheduler is the name, among those of the schedulers, of a host without one.
const noScheduler = "none"

// privateLog is for schedulers that create the log with a umask of their own.
const privateLog = `# The scheduler created the log with a umask of its own.
test -f /proc/self/fd/1 && chmod go= /proc/self/fd/1`

// srunCPUs is for sites and people whose server is started by srun.
const srunCPUs = `# Since Slurm 22.05, srun does not get the number of CPUs from the job.
test -z "$SLURM_CPUS_PER_TASK" || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"`

// Schedulers are the names of the schedulers in the config, in the order to show them.
func Schedulers() []string { return each(dialects, func(d dialect) string { return d.name }) }

// SchedulerChoice lists Schedulers for a sentence: slurm, pbs or none.
func SchedulerChoice() string { return orList(Schedulers()) }

// dialectOf is the dialect of a scheduler; that of noScheduler for one that is not known.
func dialectOf(scheduler string) dialect {
	if d, ok := find(dialects, func(d dialect) bool { return d.name == scheduler }); ok {
		return d
	}
	return dialects[len(dialects)-1]
}

// SameJobName reports whether jobs of two names may have the same one after a scheduler has
// shortened them.
func SameJobName(a, b string) bool {
	return slices.ContainsFunc(dialects, func(d dialect) bool { return d.jobName(a) == d.jobName(b) })
}

func anyName(name string) string { return name }

// noDigitFirst puts a letter in front of a name that begins with a digit, which neither PBS
// nor Grid Engine accepts.
func noDigitFirst(name string) string {
	if strings.IndexAny(name, "0123456789") == 0 {
		return "j" + name
	}
	return name
}

// pbsNameLength is how long a name every PBS accepts.
const pbsNameLength = 15

// numbered matches the number at the end of a name.
var numbered = regexp.MustCompile(`-[0-9]+$`)

// pbsName is a name that every PBS accepts: older ones allow 15 characters. A number at its
// end stays, so that shortened names differ.
func pbsName(name string) string {
	name = noDigitFirst(name)
	if len(name) <= pbsNameLength {
		return name
	}
	end := numbered.FindString(name)
	if len(end) > pbsNameLength/2 {
		end = ""
	}
	return name[:pbsNameLength-len(end)] + end
}
