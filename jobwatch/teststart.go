package jobwatch

import (
	"context"
	"regexp"
	"strings"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/posixsh"
)

// Start is what a scheduler says about when a job would start. All of it is an estimate.
type Start struct {
	At    time.Time // zero: it does not tell
	Words string    // what it tells besides or instead
	// Submitted is the job that a command submitted which should only have tested it;
	// Cancelled says that it was cancelled.
	Submitted string
	Cancelled bool
}

// TestStart asks the scheduler when a job would start, without submitting it. If the scheduler would refuse the job, that is an *api.Error with
// api.CodeSubmit. It counts as a query: callers wait for Limits.QueryMin.
func (w *Watcher) TestStart(ctx context.Context, s Submission) (Start, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return Start{}, err
	}
	unlock := func() {}
	defer func() { unlock() }()
	start, err := sched.testStart(ctx, w.sh, s, func(ctx context.Context) error {
		turn, err := w.awaitTurn(ctx)
		if err == nil {
			unlock = turn
		}
		return err
	})
	if start.Submitted != "" {
		w.log.Warn("the test of a job submitted it", "job", start.Submitted, "cancelled", start.Cancelled)
		w.changed()
	}
	return start, err
}

// awaitTurn waits until no other command runs on the host, and the last query is
// Limits.QueryMin ago.
func (w *Watcher) awaitTurn(ctx context.Context) (unlock func(), err error) {
	for {
		w.mu.Lock()
		wait := time.Until(w.lastQuery.Add(w.limits.QueryMin))
		w.mu.Unlock()
		if err := ctxtime.Sleep(ctx, wait); err != nil {
			return nil, err
		}
		if unlock, err = w.lockHost(ctx); err != nil {
			return nil, err
		}
		w.mu.Lock()
		due := time.Since(w.lastQuery) >= w.limits.QueryMin
		if due {
			w.lastQuery = time.Now()
		}
		w.mu.Unlock()
		if due {
			return unlock, nil
		}
		unlock() // the watches have made a query meanwhile
	}
}

// testScript passes the job's script to a command that should only test it; "$@" are the
// arguments of the submission. Should a job's id come back, it is cancelled at once, by the sh
// text cancel with the id as $1, also if the connection is lost meanwhile. The sed commands in
// ids print it; the last of them that prints anything counts. A file in our folder then has the line about it: the next test
// finds it there, and tests nothing, so that a lost answer is told later.
func testScript(sh *shell, s Submission, command, cancel string, ids ...string) string {
	return strings.NewReplacer(
		"@FILE@", sh.folder()+"/"+submittedMark,
		"@WORKDIR@", posixsh.QuotePath(orHome(s.Workdir)),
		"@ARGS@", posixsh.Join(s.Args),
		"@READ@", printScript(s),
		"@COMMAND@", command,
		"@IDS@", posixsh.Join(ids),
		"@CANCEL@", cancel,
		"@MARK@", submittedMark,
	).Replace(testText)
}

// testText: without a reader, a write ends a process by SIGPIPE, which must not happen
// between the submission and its end.
//
// Clusters may share a home, so the file has the name of the login nodes, without the number of
// this one.
const testText = `tunctl_file=@FILE@.$(uname -n | tr -d 0-9)
if test -O "$tunctl_file" && test -s "$tunctl_file"; then cat "$tunctl_file"; exit; fi
trap '' HUP PIPE
cd @WORKDIR@ || exit
set -- @ARGS@
out=$( (trap - PIPE; @READ@) | limit @COMMAND@); status=$?
set -- "$(for tunctl_id in @IDS@; do printf '%s\n' "$out" | sed -n "$tunctl_id"; done | tail -n 1)"
if test -n "$1"; then
	@CANCEL@
	set -- "@MARK@ $1 $?"
	(umask 077; mkdir -p "${tunctl_file%/*}"; test -O "${tunctl_file%/*}" && printf '%s\n' "$1" >"$tunctl_file")
	printf '\n%s\n' "$1"
fi
printf '%s\n' "$out"
exit $status`

// submittedMark begins the line about a job that a test submitted, and the name of the file that
// has it.
const submittedMark = "tunctl.submitted"

var submittedLine = regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(submittedMark) + ` (\d[\w.;-]*) (\d+)$`)

// readSubmitted reads whether a test has submitted the job.
func readSubmitted(res Result) (Start, bool) {
	m := submittedLine.FindSubmatch(res.Stdout)
	if m == nil {
		return Start{}, false
	}
	return Start{Submitted: string(m[1]), Cancelled: string(m[2]) == "0"}, true
}
