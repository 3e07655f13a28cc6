package action

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"tunctl/internal/api"
)

// Extend asks for more time for the job of a session.
func Extend(ctx context.Context, a Agent, session string, by time.Duration) (string, error) {
	job, err := a.Extend(ctx, session, by)
	switch {
	case err != nil:
		return "", err
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
		return 0, api.Errorf(api.CodeUsage, "%q is not a time", text).
			WithHint("write 30m, 2h, 1h30m, 2d, 1:30:00 or 1-00:00:00")
	}
	return total, nil
}
