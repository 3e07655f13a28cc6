package jobwatch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/gridengine"
	"tunctl/jobwatch/pbs"
	"tunctl/jobwatch/plain"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
	"tunctl/jobwatch/slurm"
)

// schedulerKinds are all schedulers. If a host has several, the first that responds is used.
var schedulerKinds = []*sched.Kind{&slurm.Kind, &pbs.Kind, &gridengine.Kind, &plain.Kind}

// kindNamed is the kind of scheduler with that name, or nil.
func kindNamed(name string) *sched.Kind {
	i := slices.IndexFunc(schedulerKinds, func(k *sched.Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return schedulerKinds[i]
}

// unknownScheduler is the error for a name that no kind has.
func unknownScheduler(name string) error {
	names := lists.Map(schedulerKinds, func(k *sched.Kind) string { return strconv.Quote(k.Name) })
	last := len(names) - 1
	return api.Errorf(api.CodeConfig, "unknown scheduler %q: expected %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// account is who we are on the host.
type account struct {
	scheduler, login, node string
	installed              string // the schedulers of which none responds, if scheduler is empty
}

// accountScript prints the account. It finds schedulers on the login shell's PATH. If several
// are installed, as after a migration or with wrappers, it prints the first that responds,
// or "" if none does. Where none is found, it looks once for one that bash has not: behind
// a module, or in the start-up files of the user's own shell, and has later login shells read how to get there.
func accountScript() string {
	var installed, responds string
	for _, k := range schedulerKinds {
		if k.Installed != "" {
			installed += "if " + k.Installed + `; then set -- "$@" ` + k.Name + "; fi\n"
			responds += "\t" + k.Name + ") answers " + k.Responds + " ;;\n"
		}
	}
	return `has() { for p; do command -v "$p" >/dev/null 2>&1 || return 1; done; }
limited() { if has timeout; then timeout 10 "$@"; else "$@"; fi; }
answers() { limited "$@" >/dev/null 2>&1 </dev/null; }
find_installed() { set --
` + installed + `found=$*; }
find_elsewhere() {
	setup=
	if (module load slurm && has sbatch squeue) >/dev/null 2>&1 </dev/null; then setup='module load slurm >/dev/null 2>&1 </dev/null'
	elif test -n "$SHELL"; then
		for p in $(printf 'which sbatch\nwhich qsub\n' | limited "$SHELL" -l 2>/dev/null | sed -n 's|^\(/[A-Za-z0-9_./+-]*\)/sbatch$|\1|p; s|^\(/[A-Za-z0-9_./+-]*\)/qsub$|\1|p'); do
			setup="PATH=\$PATH:$p"
		done
	fi
	test -n "$setup" && (umask 077; mkdir -p ~/.tunctl && chmod 700 ~/.tunctl && rm -f ` + posixsh.SetupFile + ` && printf '%s\n' "$setup" >` + posixsh.SetupFile + `) 2>/dev/null && . ` + posixsh.SetupFile + `
}
find_installed
if test -z "$found" && find_elsewhere; then find_installed; fi
set -- $found
s=
case $# in
0) s=` + plain.Kind.Name + `
` + unsupportedScript() + ` ;;
1) s=$1 ;;
*) for k; do
	case $k in
` + responds + `	esac && s=$k && break
done ;;
esac
printf '%s\n' "$s" "$(id -un)" "$(uname -n)" "$*"`
}

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
	if !k.JobsAreProcesses || h.Scheduler != "" {
		return nil
	}
	return api.Errorf(api.CodeNoScheduler, "no scheduler was found on %s: none of %s is on the PATH of your login shell there. Nothing was started", h.Host, programs()).
		WithHint("if it is your own machine, set scheduler = \"none\" in [host.%[1]s]: jobs are then processes on it. If %[1]s is a login node, put the scheduler's commands on the PATH of your login shell there", h.Host)
}

// programs are the submit commands that are looked for.
func programs() string {
	names := lists.Map(schedulerKinds, func(k *sched.Kind) string { return k.Program })
	names = append(names, lists.Map(unsupportedKinds[:3], func(k unsupportedKind) string { return k.program })...)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	return strings.Join(slices.Compact(names), ", ")
}

// host is what is known of a host's scheduler, and who may run a command there.
type host struct {
	Options
	sh   *remote.Shell
	turn ctxtime.Mutex // taken while a command runs

	account account // owned by who has the turn

	mu    sync.Mutex
	sched sched.Scheduler
}

// known is the host's scheduler, if that was found out already; else nil.
func (h *host) known() sched.Scheduler {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sched
}

// knownName is the name of the host's scheduler, without a query; "" if it is not known.
func (h *host) knownName() string {
	if s := h.known(); s != nil {
		return s.Kind().Name
	}
	return h.Scheduler
}

// acquire returns the scheduler once no other command runs on the host. None does until
// unlock is called.
func (h *host) acquire(ctx context.Context) (s sched.Scheduler, unlock func(), err error) {
	if s, err = h.scheduler(ctx); err != nil {
		return nil, nil, err
	}
	return s, h.turn.Unlock, h.turn.Lock(ctx)
}

// kind is the kind of the host's scheduler.
func (h *host) kind(ctx context.Context) (*sched.Kind, error) {
	s, err := h.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	return s.Kind(), nil
}

// scheduler is the host's scheduler, which is found out once.
func (h *host) scheduler(ctx context.Context) (sched.Scheduler, error) {
	if known := h.known(); known != nil {
		return known, nil
	}
	name := h.Scheduler
	if name == "" {
		a, err := h.whoami(ctx)
		if err != nil {
			return nil, err
		}
		if name = a.scheduler; name == "" {
			return nil, fmt.Errorf("%w: the commands of several are installed (%s), and none responds", remote.ErrNoAnswer, a.installed)
		}
	}
	if err := unsupportedError(h.Host, name); err != nil {
		return nil, err
	}
	k := kindNamed(name)
	if k == nil {
		return nil, unknownScheduler(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sched = k.New()
	return h.sched, nil
}

// whoami queries the host once and remembers the answer.
func (h *host) whoami(ctx context.Context) (account, error) {
	if err := h.turn.Lock(ctx); err != nil {
		return account{}, err
	}
	defer h.turn.Unlock()
	if h.account != (account{}) {
		return h.account, nil
	}
	res, err := h.sh.Login(ctx, accountScript())
	if err != nil {
		return account{}, err
	}
	lines := strings.Split(string(res.Stdout), "\n")
	if len(lines) < 4 {
		said := api.NewRemoteText(string(res.Stdout)).FirstLine(200)
		return account{}, fmt.Errorf("cannot read the user name on the host: unexpected output %q", said)
	}
	a := account{scheduler: lines[0], login: lines[1], node: lines[2], installed: lines[3]}
	h.Log.Debug("identified the host", "scheduler", a.scheduler, "user", a.login, "node", a.node)
	if a.scheduler == "" {
		return a, nil // query it again next time
	}
	h.account = a
	return a, nil
}
