package jobwatch

import (
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/gridengine"
	"tunctl/jobwatch/pbs"
	"tunctl/jobwatch/plain"
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
	var names []string
	for _, k := range schedulerKinds {
		names = append(names, strconv.Quote(k.Name))
	}
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
