// Package action is what the user can do to a session, a job or a host, and the words for it: what
// is asked before, and what is said of the result. The tray, the dashboard, the screen of `tunctl
// status --watch` and the commands use it, so that the same deed has the same words everywhere. The
// agent does the work; what is known without doing anything is written by package show.
package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/show"
	"tunctl/internal/words"
)

// Agent is what the actions need of the agent's client.
type Agent interface {
	Page(ctx context.Context, session string) (api.OpenResponse, error)
	EndpointPage(ctx context.Context, session, endpoint string) (api.OpenResponse, error)
	Extend(ctx context.Context, req api.ExtendRequest) (api.Job, error)
}

// Page is a page of a session: its main one, or another endpoint of its job.
type Page struct{ Session, Endpoint string }

// Get is the whole address of the page, with its secrets.
func (p Page) Get(ctx context.Context, a Agent) (api.OpenResponse, error) {
	if p.Endpoint == "" {
		return a.Page(ctx, p.Session)
	}
	return a.EndpointPage(ctx, p.Session, p.Endpoint)
}

// Command is the command that opens the page.
func (p Page) Command() string { return show.OpenCommand(p.Session, p.Endpoint) }

// Desktop is where pages and secrets go: to the browser and the clipboard of the user, never
// to another program.
type Desktop struct {
	Open func(ctx context.Context, url string) error
	Copy func(ctx context.Context, text string) error
}

// OwnDesktop is that of this process.
var OwnDesktop = Desktop{desktop.Open, desktop.Copy}

// OpenPage opens a page. The text is what the user needs to know besides: a password that the
// page asks for, which goes to the clipboard, or how to use what is no page to look at.
func (d Desktop) OpenPage(ctx context.Context, a Agent, p Page) (string, error) {
	page, err := p.Get(ctx, a)
	if err != nil {
		return "", err
	}
	if text := page.ConnectText(); text != "" {
		return text, nil
	}
	if err := d.Open(ctx, page.URL); err != nil {
		return "", OpenError(err, p.Command())
	}
	if page.Password == "" {
		return "", nil
	}
	text := "It asks for a password, which is on the clipboard: paste it."
	if d.Copy(ctx, page.Password) != nil {
		text = "It asks for a password, which `" + p.Command() + " --print` shows."
	}
	if page.User != "" {
		text += " Log in as " + page.User + "."
	}
	return text, nil
}

// Cause is why something could not be done, for who reads that it could not: the error without
// its own "could not …" before the cause.
func Cause(err error) string {
	text := api.Redact(err.Error())
	if before, after, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(before, "could not ") && !strings.Contains(before, "\n") {
		return after
	}
	return text
}

// OpenError is an error of [desktop.Open] with what the user can do: the command opens the same
// page.
func OpenError(err error, command string) error {
	switch {
	case errors.Is(err, desktop.ErrNoBrowser), errors.Is(err, desktop.ErrUnavailable):
		return api.Errorf(api.CodeFailed, "no browser found").Because(err).WithHint("`%s --print` shows the full address", command)
	case errors.Is(err, desktop.ErrNotOpened):
		return api.Errorf(api.CodeFailed, "the browser started, but did not request the page").Because(err).
			WithHint("`%s` tries again; --print shows the full address", command)
	}
	return err
}

// CopyAddress copies the whole address of a page.
func (d Desktop) CopyAddress(ctx context.Context, a Agent, p Page) (string, error) {
	page, err := p.Get(ctx, a)
	if err != nil {
		return "", err
	}
	switch err := d.Copy(ctx, page.URL); {
	case errors.Is(err, desktop.ErrUnavailable):
		return "", api.Errorf(api.CodeFailed, "no clipboard program found (%v)", err).Because(err).
			WithHint("`%s --print` shows the full address", p.Command())
	case err != nil:
		return "", err
	}
	return copiedText(p, page), nil
}

// copiedText says that the address of a page was copied, and what it is worth.
func copiedText(p Page, page api.OpenResponse) string {
	text := "Copied the address of " + p.Session
	switch {
	case strings.Contains(page.URL, "?"): // the token, or that of noVNC's page with its password
		return text + ", token included: whoever has it can use your notebook."
	case page.Password != "":
		return text + ". The page asks for a password, which `" + p.Command() + " --print` shows."
	}
	return text + "."
}

// NothingCancelled is said where no job was ended.
const NothingCancelled = "nothing was cancelled"

// NotCancelled is said to who answers a [CancelQuestion] with anything but yes.
func NotCancelled(now time.Time, sessions ...api.Session) string {
	text := NothingCancelled
	for _, s := range sessions {
		for _, j := range s.LiveJobs() {
			text += "; " + becomes(j, now)
		}
	}
	return text
}

// CancelQuestion asks whether to end all jobs of sessions, so that the user knows which ones; "" if
// they have none.
func CancelQuestion(now time.Time, sessions ...api.Session) string {
	var jobs []string
	for _, s := range sessions {
		for _, j := range s.LiveJobs() {
			jobs = append(jobs, show.Job(j, now))
		}
		if s.Pending {
			jobs = append(jobs, "the job of "+s.Name+" that may still appear")
		}
	}
	if len(jobs) == 0 {
		return ""
	}
	return "End " + strings.Join(jobs, " and ") + "?"
}

// CancelledText says that a job was ended.
func CancelledText(j api.Job) string { return "job " + j.ID + " was cancelled" }

// DownTexts say what became of sessions and their jobs since before.
func DownTexts(done api.DownResponse, before api.Status, now time.Time) (lines []string) {
	for _, s := range done.Sessions {
		lines = append(lines, downText(s, before, now)...)
	}
	return lines
}

func downText(s api.Session, before api.Status, now time.Time) []string {
	was, _ := before.Session(s.Name)
	wasDown, already := was.State == api.SessionDown, ""
	if wasDown {
		already = "already "
	}
	lines := []string{fmt.Sprintf("%s is %s%s%s", s.Name, already, words.Session(s, now), keepsRunning(s, wasDown, now))}
	for _, j := range s.Others {
		if j.State.Ended() {
			lines = append(lines, CancelledText(j))
		}
	}
	lines = append(lines, show.EarlierJobs(s, now)...)
	if s.Next != nil {
		lines = append(lines, fmt.Sprintf("job %s, which was to follow it, stays in the queue: `%s` removes it", s.Next.ID, howToEnd(s, s.Next)))
	}
	return lines
}

// keepsRunning says that the job keeps running without its session, and how to end it. Of a
// session that was down already, it says when the job was last seen.
func keepsRunning(s api.Session, wasDown bool, now time.Time) string {
	j := s.Job
	switch {
	case j != nil && j.State == api.JobCancelled:
		return "; " + CancelledText(*j)
	case j == nil, j.State.Ended():
		return ""
	case j.State == api.JobCompleting:
		return "; " + becomes(*j, now)
	case wasDown && s.Cause != "":
		return fmt.Sprintf("; %s: `%s` ends it", s.Cause, howToEnd(s, j))
	case j.State.Waiting():
		return fmt.Sprintf("; %s: `%s` removes it", becomes(*j, now), howToEnd(s, j))
	}
	return fmt.Sprintf("; %s: `%s` ends it", becomes(*j, now), howToEnd(s, j))
}

// becomes says what becomes of a job that is not ended.
func becomes(j api.Job, now time.Time) string {
	if j.State == api.JobCompleting {
		return "job " + j.ID + " is about to end"
	}
	if j.State.Waiting() {
		return "job " + j.ID + " is still queued and will run"
	}
	return "job " + j.ID + " keeps running and is " + words.Charged(j, now)
}

// howToEnd is the command that ends the job of a session that is down. A forgotten session
// has no name any more.
func howToEnd(s api.Session, j *api.Job) string {
	if s.Forgotten {
		return fmt.Sprintf("tunctl cancel %s %s", s.Host, j.ID)
	}
	return fmt.Sprintf("tunctl down %s --cancel", s.Name)
}

// MayBeCharged reports whether a job of the session waits or runs, or may still appear. One that
// was cancelled and is about to end does not count.
func MayBeCharged(s api.Session) bool {
	return s.Pending || slices.ContainsFunc(s.LiveJobs(), func(j api.Job) bool { return j.State != api.JobCompleting })
}

// Extend asks for more time for the job of a session.
func Extend(ctx context.Context, a Agent, req api.ExtendRequest) (string, error) {
	job, err := a.Extend(ctx, req)
	switch {
	case err != nil:
		return "", err
	case req.Idle:
		return "Job " + job.ID + " counts as used now, for end_idle.", nil
	case job.End.IsZero():
		return "Job " + job.ID + " was extended.", nil
	}
	now := time.Now()
	return "Job " + job.ID + " runs until " + api.ClockText(job.End, now) + ", " + api.DurationText(job.End.Sub(now)) + " from now.", nil
}

// A span of time is 90m, 1h30m, 2d or 1d12h or, as for sbatch, H:MM:SS, D-HH, D-HH:MM or
// D-HH:MM:SS. A number alone is ambiguous, and so is H:MM.
var (
	spanForm  = regexp.MustCompile(`^(?:(\d{1,4})d)?((?:\d+(?:\.\d+)?[hms])*)$`)
	clockForm = regexp.MustCompile(`^(?:(\d{1,4})-)?(\d+)(?::(\d+))?(?::(\d+))?$`)
)

// ParseSpan reads how much longer a job may run.
func ParseSpan(text string) (time.Duration, error) {
	if strings.HasPrefix(text, "-") {
		return 0, api.Errorf(api.CodeUsage, "the time limit of a job cannot be shortened").WithHint("`tunctl cancel` and `tunctl down --cancel` end a job")
	}
	var days, rest string
	if m := spanForm.FindStringSubmatch(text); m != nil {
		days, rest = m[1], cmp.Or(m[2], "0s")
	} else if m := clockForm.FindStringSubmatch(text); m != nil && (m[1] != "" || m[4] != "") {
		days, rest = m[1], fmt.Sprintf("%sh%sm%ss", m[2], cmp.Or(m[3], "0"), cmp.Or(m[4], "0"))
	}
	n, _ := strconv.Atoi(days) // "" is none
	total, err := time.ParseDuration(rest)
	total += time.Duration(n) * 24 * time.Hour
	if err != nil || total <= 0 {
		return 0, api.Errorf(api.CodeUsage, "%q is not a time", text).WithHint("write 30m, 2h, 1h30m, 2d, 1:30:00 or 1-00:00:00")
	}
	return total, nil
}
