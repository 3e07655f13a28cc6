package jobwatch

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// How the submit script ends.
const (
	submitDone      = 0  // the scheduler's answer follows
	submitPending   = 10 // it was submitted; the answer is not there yet
	submitFailed    = 11 // nothing was submitted; standard error says why, in its last line or two
	submitUnreached = 12 // nothing was submitted, since the server could not be reached; the tag can be used again
)

// submitScript is the script of Watcher.Submit. The tag's folder on the host makes a
// submission happen once: the process that creates the folder "tunctl.lock" in it (mkdir is
// atomic, also on NFS) submits, and writes the scheduler's answer to files next to it. All
// others, earlier or later, only read the answer.
//
// Before the lock, nothing has happened and a second call starts over. After it, neither a
// lost connection (the output goes to files) nor the hang-up signal ends the process that
// submits. If the host itself crashes there, a lock without an answer remains, and the
// scheduler is queried for the tag. If the submit command could not reach the server, its process
// removes the lock: another call submits.
//
// The folder above may be writable for others, so the folder must belong to the user, and if it is
// a link, that too: another's could be changed between the checks and the submission.
//
// Old folders are removed: those of submissions after 30 days, and those of jobs that were
// killed, so that they could not remove theirs, after 90, as are old logs. On a host without a scheduler the
// job itself is a process, which may be quiet for longer: its folders stay while a process of
// that number runs on this node, or if it was started on another.
//
// Variables have our prefix, because the job would inherit one that the user exports
// under the same name. The script waits for the answer for most of a command's time limit.
func submitScript(sh *remote.Shell, kind *sched.Kind, s Submission, mark string) string {
	wait := sh.Limit * 6 / 10
	return strings.NewReplacer(
		"@ROOT@", sh.Folder(),
		"@TAG@", posixsh.Quote(s.Tag),
		"@BASE@", posixsh.Quote(s.base()),
		"@WORKDIR@", posixsh.QuotePath(cmp.Or(s.Workdir, "~")),
		"@SESSION@", posixsh.Join([]string{s.Session, s.Computer}),
		"@CHECK@", checkScript(s),
		"@PRINT@", printScript(s),
		"@NOTE@", noteScript(s),
		"@LOGS@", logsScript(kind, s),
		"@ARGS@", posixsh.Join(s.Args),
		"@COMMAND@", kind.Submit,
		"@UNREACHED@", posixsh.Quote(cmp.Or(kind.Unreached, "tunctl.unreached")),
		"@MARK@", mark,
		"@TENTHS@", strconv.Itoa(int(wait/(100*time.Millisecond))),
	).Replace(submitText)
}

const submitText = `(: @ROOT@) || exit 11
tunctl_root=@ROOT@
tunctl_dir=$tunctl_root/@TAG@
tunctl_script=$tunctl_dir/@BASE@
tunctl_limit() { if command -v timeout >/dev/null 2>&1; then timeout 120 "$@"; else command "$@"; fi; }
tunctl_fail() { printf '%s\n' "$1" >&2; test ! -d "$tunctl_dir/tunctl.lock" || exit 10; exit 11; }
tunctl_make() {
	(umask 077; mkdir -p "$1") || tunctl_fail "cannot write to $1:"
	test -O "$1" && { test ! -L "$1" || test -n "$(find "$1" -prune \( -user "$(id -u)" -o -user 0 \))"; } || tunctl_fail "the folder $1 belongs to another user: remove it, or set private in the [host] section of the config"
	chmod 700 "$1"
}
tunctl_make "$tunctl_root"
(umask 077; mkdir -p "$tunctl_dir") || tunctl_fail "cannot write to $tunctl_root:"
if test ! -d "$tunctl_dir/tunctl.lock"; then
	cd @WORKDIR@ || tunctl_fail 'cannot enter the working directory:'
	@CHECK@
	set --
	@LOGS@
	tunctl_new=$tunctl_dir/tunctl.new.$$
	( @PRINT@ ) >"$tunctl_new" || { rm -f "$tunctl_new"; tunctl_fail "cannot copy the job script to $tunctl_root:"; }
	@NOTE@
	chmod 700 "$tunctl_new" && mv -f "$tunctl_new" "$tunctl_script" || tunctl_fail "cannot copy the job script to $tunctl_root:"
	printf '%s\n' @SESSION@ >"$tunctl_dir/tunctl.session"
	(
		trap '' HUP
		mkdir "$tunctl_dir/tunctl.lock" || exit 0
		set -- "$@" @ARGS@
		( @COMMAND@ ) >"$tunctl_dir/tunctl.out" 2>"$tunctl_dir/tunctl.err"
		set -- $?
		if test $1 -ne 0 && test ! -s "$tunctl_dir/tunctl.out" && grep -Eq @UNREACHED@ "$tunctl_dir/tunctl.err" && ! grep -Eiq 'timed? ?out|reset|receiv' "$tunctl_dir/tunctl.err"; then
			mv "$tunctl_dir/tunctl.err" "$tunctl_dir/tunctl.unreached.$$"
			rmdir "$tunctl_dir/tunctl.lock"
			exit
		fi
		printf '%s\n' "$1" >"$tunctl_dir/tunctl.exit.new"
		mv "$tunctl_dir/tunctl.exit.new" "$tunctl_dir/tunctl.exit"
	) </dev/null >/dev/null 2>&1 3<&- &
	find "$tunctl_root" -mindepth 1 -maxdepth 1 -type d -mtime +30 2>/dev/null | head -n 50 | while IFS= read -r tunctl_old; do
		test -d "$tunctl_old/tunctl.lock" && test -z "$(find "$tunctl_old" -mtime -30 2>/dev/null | head -n 1)" || continue
		if test -f "$tunctl_old/tunctl.pid" && test ! -f "$tunctl_old/tunctl.status"; then
			read -r tunctl_pid tunctl_stamp tunctl_since tunctl_node <"$tunctl_old/tunctl.pid"
			test "$tunctl_node" = "$(uname -n)" && ! kill -0 "$tunctl_pid" 2>/dev/null || continue
		fi
		rm -rf "$tunctl_old"
	done
	test -z "$tunctl_logs" || find "$tunctl_logs/" -type f -mtime +90 -exec rm -f {} + 2>/dev/null
	tunctl_i=0
	for tunctl_old in "$tunctl_root"/job.[0-9]*; do
		test "$tunctl_i" -lt 200 || break
		tunctl_i=$((tunctl_i + 1))
		test -d "$tunctl_old" && test ! -L "$tunctl_old" && ! kill -0 "${tunctl_old##*/job.}" 2>/dev/null || continue
		test -n "$(find "$tunctl_old" -prune -mtime +90 2>/dev/null)" && test -z "$(find "$tunctl_old" -mtime -90 2>/dev/null | head -n 1)" && rm -rf "$tunctl_old"
	done
fi
tunctl_i=0
while test ! -f "$tunctl_dir/tunctl.exit"; do
	if test -f "$tunctl_dir/tunctl.unreached.$$"; then cat "$tunctl_dir/tunctl.unreached.$$" >&2; rm -f "$tunctl_dir/tunctl.unreached.$$"; exit 12; fi
	test "$tunctl_i" -lt @TENTHS@ || exit 10
	sleep 0.1 2>/dev/null || { sleep 1; tunctl_i=$((tunctl_i + 9)); }
	tunctl_i=$((tunctl_i + 1))
done
for tunctl_i in exit out err note; do
	printf '\n%s %s\n' @MARK@ "$tunctl_i"
	test ! -f "$tunctl_dir/tunctl.$tunctl_i" || head -c 16384 "$tunctl_dir/tunctl.$tunctl_i"
done
exit 0`

const crlfNote = "the Windows line endings of the script were converted to Unix ones"

// checkScript checks that the job script exists.
func checkScript(s Submission) string {
	if s.Script == "" {
		return ":"
	}
	return "test -f " + posixsh.QuotePath(s.Script) + " && test -r " + posixsh.QuotePath(s.Script) +
		" || tunctl_fail " + posixsh.Quote(fmt.Sprintf("cannot read the job script %q on the host: paths start in your home folder there; write local:FILE for a file on this machine", s.Script))
}

// logsScript creates the folder for the job's log, and sets the arguments for a log there.
func logsScript(kind *sched.Kind, s Submission) string {
	_, own := sched.LastOption(kind.Directives.Options(s.Args), kind.LogOption)
	if s.Logs == "" || kind.LogIn == "" || own {
		return "tunctl_logs="
	}
	return "tunctl_logs=" + s.Logs + ` || exit 11
	tunctl_make "${tunctl_logs%/*}"
	tunctl_make "$tunctl_logs"
	set -- ` + kind.LogIn
}

// printScript prints the job script, with Unix line endings: schedulers refuse Windows ones.
func printScript(s Submission) string {
	if s.Script == "" {
		return "printf '%s' " + posixsh.Quote(strings.ReplaceAll(string(s.Content), "\r\n", "\n"))
	}
	return `LC_ALL=C sed "s/$(printf '\r')\$//" <` + posixsh.QuotePath(s.Script)
}

// noteScript writes a note if line endings were changed.
func noteScript(s Submission) string {
	note := "printf '%s\\n' " + posixsh.Quote(crlfNote) + ` >"$tunctl_dir/tunctl.note"`
	if s.Script != "" {
		return `if LC_ALL=C grep -q "$(printf '\r')\$" < ` + posixsh.QuotePath(s.Script) + `; then ` + note + `; fi`
	}
	if bytes.Contains(s.Content, []byte("\r\n")) {
		return note
	}
	return ":"
}

// sections splits out at the lines "mark name", and returns the text after each by name.
func sections(out, mark string) map[string]string {
	parts := make(map[string]string)
	for _, part := range strings.Split("\n"+out, "\n"+mark+" ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		parts[name] = text
	}
	return parts
}
