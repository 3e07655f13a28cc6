package jobwatch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// DoubtError says that the result of a submission is unknown: the job may exist. The user
// must check before anything is submitted under another tag.
type DoubtError struct {
	Tag   string
	Words string
}

// Error implements error.
func (e *DoubtError) Error() string {
	return "tunctl cannot tell whether the job was submitted: " + e.Words
}

const (
	// maxSubmitWaits is how often we wait for a submit command that hangs, each time for
	// most of a command's time limit.
	maxSubmitWaits = 4
	// maxLooks is how often we look for the job after ErrDoubt.
	maxLooks = 3
)

// Submit submits a job, or finds the one that was submitted under the same tag. After
// ErrLost, repeat the call with the same tag. A refusal is an *api.Error with
// api.CodeSubmit; a new attempt needs a new tag. After a DoubtError, the user must decide.
func (w *Watcher) Submit(ctx context.Context, s Submission) (api.Job, error) {
	if err := s.check(); err != nil {
		return api.Job{}, api.Errorf(api.CodeSubmit, "%w", err)
	}
	scheduler, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return api.Job{}, err
	}
	defer unlock()
	if err := w.host.processError(scheduler.Kind()); err != nil {
		return api.Job{}, err
	}
	w.host.Log.Info("submitting a job", "tag", s.Tag, "scheduler", scheduler.Kind().Name)
	job, err := w.host.submit(ctx, scheduler, s)
	if err != nil {
		return api.Job{}, err
	}
	w.host.Log.Info("submitted a job", "tag", s.Tag, "job", job.ID)
	w.recordSubmitted(job, s.Awaited)
	w.changed()
	return job, nil
}

// submit makes one submission, while nobody else runs a command on the host.
func (h *host) submit(ctx context.Context, scheduler sched.Scheduler, s Submission) (api.Job, error) {
	scheduler.AddClusters(s.Args)
	a, note, err := h.runSubmit(ctx, scheduler, s)
	id := ""
	if err == nil {
		id, err = scheduler.ParseSubmit(a)
	} else if !errors.Is(err, sched.ErrDoubt) {
		return api.Job{}, err
	}
	if err != nil {
		found, err := h.findSubmitted(ctx, scheduler, s.Tag, a, err)
		if err != nil {
			return api.Job{}, err
		}
		id = sched.WholeRef(scheduler, found)
	}
	return h.describeSubmitted(ctx, scheduler, s, id, note), nil
}

// runSubmit runs the submit script until the scheduler's answer is on the host's disk. It
// returns the answer and a note for the user. Only the script itself can say that nothing was submitted:
// whoever ended it before that may have left its submit command running.
func (h *host) runSubmit(ctx context.Context, scheduler sched.Scheduler, s Submission) (remote.Result, string, error) {
	mark := remote.NewMark()
	script := submitScript(h.sh, scheduler.Kind(), s, mark)
	for range maxSubmitWaits {
		res, err := h.sh.Login(ctx, script)
		if e, ended := errors.AsType[*api.Error](err); ended {
			return remote.Result{Stderr: []byte(e.Message)}, "", sched.ErrDoubt
		}
		if err != nil {
			return remote.Result{}, "", err
		}
		switch res.Exit {
		case submitDone:
			return readAnswer(res, mark)
		case submitPending:
			continue
		case submitFailed:
			return remote.Result{}, "", submitScriptError(res)
		case submitUnreached:
			return remote.Result{}, "", &UnreachedError{Words: sched.Complaint(res)}
		}
		return remote.Result{Stderr: fmt.Appendf(nil, "the commands that submit it were ended with status %d", res.Exit)}, "", sched.ErrDoubt
	}
	return remote.Result{Stderr: []byte("the submit command has not ended")}, "", sched.ErrDoubt
}

// UnreachedError says that nothing was submitted with a tag, since the submit command did not reach
// the scheduler. It wraps remote.ErrNoAnswer: the same tag can be submitted later.
type UnreachedError struct{ Words string }

// Error implements error.
func (e *UnreachedError) Error() string { return e.Unwrap().Error() + ": " + e.Words }

// Unwrap returns remote.ErrNoAnswer.
func (e *UnreachedError) Unwrap() error { return remote.ErrNoAnswer }

// submitScriptError is the error of a submit script that submitted nothing. If its own message ends
// in a colon, the line before it has the cause.
func submitScriptError(res remote.Result) error {
	words := sched.LastErrorLine(res)
	text := bytes.TrimSpace(res.Stderr)
	if at := bytes.LastIndexByte(text, '\n'); at > 0 && strings.HasSuffix(words, ":") {
		words += " " + sched.LastErrorLine(remote.Result{Stderr: text[:at]})
	}
	full, _ := sched.BestMatch(noRoom, words)
	return api.Errorf(api.CodeSubmit, "cannot submit the job: %s", words).WithHint("%s", full.Words)
}

// noRoom are the messages of a full disk.
var noRoom = sched.Messages([][3]string{{sched.DiskFull, sched.DiskFullHint}})

func readAnswer(res remote.Result, mark string) (remote.Result, string, error) {
	parts := sections(string(res.Stdout), mark)
	exit, err := strconv.Atoi(strings.TrimSpace(parts["exit"]))
	if err != nil {
		return remote.Result{}, "", sched.ErrDoubt
	}
	return remote.Result{Exit: exit, Stdout: []byte(parts["out"]), Stderr: []byte(parts["err"])}, strings.TrimSpace(parts["note"]), nil
}

// findSubmitted finds the job of a tag whose submit command failed, or whose answer was lost. A refusal
// is the answer if the scheduler does not know the tag either. After a lost answer the job may still
// exist later: a stalled controller processes the request when it recovers.
func (h *host) findSubmitted(ctx context.Context, scheduler sched.Scheduler, tag string, res remote.Result, why error) (api.Job, error) {
	for i := range maxLooks {
		if i > 0 {
			if err := ctxtime.Sleep(ctx, h.Limits.QueryMin); err != nil {
				return api.Job{}, err
			}
		}
		job, err := scheduler.FindTagged(ctx, h.sh, tag)
		if err == nil {
			return job, nil
		}
		if errors.Is(err, remote.ErrLost) { // the next call with this tag looks again
			return api.Job{}, err
		}
		if errors.Is(err, sched.ErrNoJob) && !errors.Is(why, sched.ErrDoubt) {
			return api.Job{}, why
		}
		h.Log.Debug("looked for a submitted job", "tag", tag, "err", err)
	}
	doubt := &DoubtError{Tag: tag, Words: sched.LastErrorLine(res)}
	return api.Job{}, api.Errorf(api.CodeNeedsPerson, "%w", doubt).
		WithHint("list your jobs on the host when the scheduler responds; start the session again only if this job is not among them")
}

// describeSubmitted is the new job, with what the scheduler already reports of it. A site's
// wrapper may print other numbers than the job's id: if ref is not the job of our script, the
// one that is has precedence, which only Slurm tells. If there is none, as where a wrapper
// submits a copy, it stays.
func (h *host) describeSubmitted(ctx context.Context, scheduler sched.Scheduler, s Submission, ref, note string) api.Job {
	job, err := scheduler.Detail(ctx, h.sh, ref)
	if errors.Is(err, sched.ErrNoJob) || err == nil && job.Script != "" && !sched.HasTag(job, s.Tag) {
		ours, e := scheduler.FindTagged(ctx, h.sh, s.Tag)
		if errors.Is(e, remote.ErrNoAnswer) && ctxtime.Sleep(ctx, h.Limits.QueryMin) == nil {
			ours, e = scheduler.FindTagged(ctx, h.sh, s.Tag)
		}
		if e == nil && sched.WholeRef(scheduler, ours) != ref {
			h.Log.Warn("the submit command printed another id", "tag", s.Tag, "printed", ref, "job", ours.ID)
			ref = sched.WholeRef(scheduler, ours)
			job, err = scheduler.Detail(ctx, h.sh, ref)
		}
	}
	id, cluster := sched.SplitRef(ref)
	if err != nil {
		h.Log.Debug("no detail of a new job yet", "job", ref, "err", err)
		job = api.Job{State: api.JobQueued, Submitted: time.Now().UTC()}
	}
	job = scheduler.AsRequested(job, id)
	job.ID, job.Cluster = id, cluster
	job.Script = cmp.Or(job.Script, cmp.Or(h.sh.Private, "~/"+remote.FolderName)+"/"+s.Tag+"/"+s.base())
	if note != "" {
		job.Hint = strings.TrimPrefix(job.Hint+"; "+note, "; ")
	}
	return job
}

// TestStart asks the scheduler when a job would start, without submitting it. If the scheduler would refuse the job, that is an *api.Error with
// api.CodeSubmit. It counts as a query: callers wait for Limits.QueryMin.
func (w *Watcher) TestStart(ctx context.Context, s Submission) (sched.Start, error) {
	scheduler, err := w.host.scheduler(ctx)
	if err != nil {
		return sched.Start{}, err
	}
	if scheduler.Kind().AsksStart {
		if err := w.awaitTurn(ctx); err != nil {
			return sched.Start{}, err
		}
		defer w.host.turn.Unlock()
	}
	start, err := scheduler.TestStart(ctx, w.host.sh, sched.Trial{PrintScript: printScript(s), Args: s.Args, Workdir: hostPath(cmp.Or(s.Workdir, "~"))})
	if start.Submitted != "" {
		w.host.Log.Warn("the test of a job submitted it", "job", start.Submitted, "cancelled", start.Cancelled)
		w.changed()
	}
	return start, err
}

// Submission is a job to be submitted exactly once.
type Submission struct {
	// Tag names the submission. Submitting the same tag again, from here or from another
	// computer with the same home on the host, never makes a second job.
	Tag string
	// Script is the path of the job script on the host; ~/ is the home folder.
	Script string
	// Content is the job script itself, if it is not on the host, and Base its file name
	// there.
	Content []byte
	Base    string
	// Args are extra arguments of the scheduler's submit command.
	Args []string
	// Workdir is the folder to submit from; the home folder if empty.
	Workdir string
	// Logs is the folder for the job's log, as a word of sh; it is created. "": the script says
	// where its log is. Args that say so count more.
	Logs string
	// Session is the name of the session, and Computer that of the computer that submits: see
	// Watcher.Submitted.
	Session, Computer string
	// Awaited says that the user waits for the job: if it is watched, it is queried once after
	// Limits.QueryAfterSubmit.
	Awaited bool
}

func (s Submission) base() string {
	return cmp.Or(s.Base, path.Base(s.Script))
}

func (s Submission) check() error {
	base := s.base()
	switch {
	case !sched.ValidTag.MatchString(s.Tag):
		return fmt.Errorf("%q is not a valid tag", s.Tag)
	case s.Script == "" && len(s.Content) == 0:
		return errors.New("the job script is empty")
	case bytes.IndexByte(s.Content, 0) >= 0:
		return errors.New("the job script is not text: it contains a NUL byte")
	case base == "." || base == ".." || base == "/" || strings.ContainsAny(base, "/\x00\n") || strings.HasPrefix(base, sched.OwnPrefix):
		return fmt.Errorf("%q is not a valid name for a job script", base)
	}
	return nil
}

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
		"@WORKDIR@", hostPath(cmp.Or(s.Workdir, "~")),
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

// hostPath is a path on the host, for its shell. One below this computer's home folder that does not exist there
// starts in the home folder of the host: the shell here has expanded a ~.
func hostPath(path string) string {
	typed := posixsh.QuotePath(path)
	dir, err := os.UserHomeDir()
	if below, ok := strings.CutPrefix(path, dir+"/"); ok && err == nil {
		return `"$(test -e ` + typed + ` && printf %s ` + typed + ` || printf %s ` + posixsh.QuotePath("~/"+below) + `)"`
	}
	return typed
}

// checkScript checks that the job script exists.
func checkScript(s Submission) string {
	if s.Script == "" {
		return ":"
	}
	return "test -f " + hostPath(s.Script) + " && test -r " + hostPath(s.Script) +
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
	return `LC_ALL=C sed "s/$(printf '\r')\$//" <` + hostPath(s.Script)
}

// noteScript writes a note if line endings were changed.
func noteScript(s Submission) string {
	note := "printf '%s\\n' " + posixsh.Quote(crlfNote) + ` >"$tunctl_dir/tunctl.note"`
	if s.Script != "" {
		return `if LC_ALL=C grep -q "$(printf '\r')\$" < ` + hostPath(s.Script) + `; then ` + note + `; fi`
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
