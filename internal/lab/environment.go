package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"tunctl/internal/posixsh"
)

// loginEnv is the student's environment after login. Nothing of the user's own
// leaks into it beyond what the computer's programs need to run at all.
func (c *Cluster) loginEnv() environment {
	env := environment{
		"HOME=" + c.Home(),
		"USER=" + user,
		"LOGNAME=" + user,
		"SHELL=/bin/bash",
		"HOSTNAME=" + loginNode,
		"LANG=C.UTF-8",
		"PATH=" + c.path,
		c.mark(),
	}
	for _, name := range []string{"TMPDIR", "TZ", "SYSTEMROOT", "TEMP", "TMP", "PATHEXT", "COMSPEC"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// mark is what every process of this cluster carries in its environment.
func (c *Cluster) mark() string { return "TUNCTL_PRACTICE_CLUSTER=" + c.dir }

// findShell finds the shell that commands and jobs run in: bash, or else sh.
func findShell() string {
	if !hasShell {
		return ""
	}
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// writePrograms puts the cluster's programs first on the student's PATH.
func (c *Cluster) writePrograms() error {
	profile := filepath.Join(c.dir, "profile")
	if err := os.WriteFile(profile, []byte(profileScript), 0o600); err != nil {
		return err
	}
	scripts := map[string]string{
		filepath.Base(c.shell): fmt.Sprintf(shellScript, posixsh.Quote(profile), posixsh.Quote(c.shell)),

		"hostname": hostnameScript,
		"uname":    fmt.Sprintf(unameScript, systemPath("uname")),
		"id":       fmt.Sprintf(idScript, user, userID, systemPath("id")),
		"whoami":   "echo " + user + "\n",

		"nvidia-smi": nvidiaScript,
	}
	for name := range c.programs() {
		scripts[name] = fmt.Sprintf(callScript, posixsh.Quote(c.callDir()), name)
	}
	if c.dialect == Slurm {
		scripts["srun"] = fmt.Sprintf(srunScript, posixsh.Quote(c.spoolDir()))
	}
	if len(c.page) > 0 {
		scripts[pageProgram] = "exec " + posixsh.Join(c.page) + ` "$@"` + "\n"
	}
	for name, script := range scripts {
		text := "#!/bin/sh\n# Of tunctl's practice cluster.\n" + script
		if err := writeProgram(filepath.Join(c.binDir(), name), text); err != nil {
			return err
		}
	}
	return nil
}

// writeProgram writes a program while no process is forked: a fork would inherit the open
// file, and the program could not be run before that child closes it (golang/go#22315).
func writeProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700) //nolint:gosec // it is run
}

func systemPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return "false"
	}
	return posixsh.Quote(path)
}

const hostnameScript = `case $1 in
-i | -I | --ip-address | --all-ip-addresses) echo 127.0.0.1 ;;
*) echo "$HOSTNAME" ;;
esac
`

// nvidiaScript lists the GPUs that a job was given, as far as tunctl and a curious user ask, and says
// that they are pretended.
const nvidiaScript = `gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr , ' ')
if test -z "$gpus"; then
	echo "No devices were found: no job with GPUs runs this (practice cluster)"
	exit 6
fi
case "$*" in
*--query-gpu=name,utilization.gpu,memory.used,memory.total*) for gpu in $gpus; do echo "T4 (pretended), 0, 0, 15360"; done ;;
*) for gpu in $gpus; do echo "GPU $gpu: T4 (pretended by the practice cluster)"; done ;;
esac
`

const unameScript = `case $1 in
-n | --nodename) echo "$HOSTNAME" ;;
*) exec %s "$@" ;;
esac
`

const idScript = `case "$*" in
-un | '-u -n' | -gn) echo %s ;;
-u | -g) echo %s ;;
*) exec %s "$@" ;;
esac
`

// shellScript stands for the shell. A login shell of the student's reads their own
// start-up files, and not those of this computer, which would change the PATH.
const shellScript = `case $1 in
-l* | --login)
	option=-${1#-l}
	shift
	test "$option" = - || test "$option" = ---login || set -- "$option" "$@"
	BASH_ENV=%s
	export BASH_ENV
	;;
esac
exec %s "$@"
`

// profileScript is what a login shell reads first.
const profileScript = `unset BASH_ENV
for practice_file in .bash_profile .bash_login .profile; do
	if test -r "$HOME/$practice_file"; then
		. "$HOME/$practice_file"
		break
	fi
done
unset practice_file
`

// srunScript runs a step of a running job: a command with the job's environment. It has
// its own standard input and output, which a program behind callScript has not. As with Slurm,
// the step is no child of srun: it outlives one that is killed.
const srunScript = `spool=%s
job=$SLURM_JOB_ID
while :; do
	case $1 in
	--jobid=*) job=${1#*=} ;;
	-w | -n | -N | -c) shift ;;
	-*) ;;
	*) break ;;
	esac
	shift
done
if ! test -r "$spool/$job.environment"; then
	echo "srun: error: Unable to confirm allocation for job $job: Invalid job id specified" >&2
	exit 1
fi
. "$spool/$job.environment"
end=$spool/$job.step.$$
mkfifo -m 600 "$end" || exit 1
exec 3<&0 4<>"$end"
rm -f "$end"
(
	{
		"$@" <&3 3<&- 4<&-
		echo $? >&4
	} &
)
exec <&- 3<&- >&- 2>&-
read -r status <&4
exit "$status"
`

// callScript hands a call of one of the batch system's programs to the process that
// runs the cluster, through files and a pair of named pipes; see broker.
const callScript = `calls=%s
call=$calls/$$
post() { printf '%%s %s\n' "$$" >"$calls/queue"; }
mkdir -m 700 "$call" && mkfifo "$call/done" || exit 1
trap 'rm -rf "$call"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
for word in "$@"; do printf '%%s\0' "$word"; done >"$call/args"
pwd >"$call/dir"
env -0 >"$call/env" 2>/dev/null || env >"$call/env"
post
while :; do
	read -r status <"$call/done"
	case $status in
	'') ;; # the end of the answer before
	stdin)
		cat >"$call/stdin"
		post
		;;
	*) break ;;
	esac
done
cat "$call/out"
cat "$call/err" >&2
exit "$status"
`
