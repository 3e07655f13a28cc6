package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	isoTime = "2006-01-02T15:04:05"
	cTime   = "Mon Jan _2 15:04:05 2006"
)

// location is the time zone a command's environment asks for.
func (c *call) location() *time.Location {
	zone := c.getenv("TZ")
	if zone == "" {
		return time.Local
	}
	if loc, err := time.LoadLocation(strings.TrimSuffix(strings.TrimPrefix(zone, ":"), "0")); err == nil {
		return loc
	}
	return time.Local
}

// slurmTime prints a time as Slurm's programs do: SLURM_TIME_FORMAT=%s asks for
// seconds since 1970.
func (c *call) slurmTime(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	if c.getenv("SLURM_TIME_FORMAT") == "%s" {
		return strconv.FormatInt(t.Unix(), 10)
	}
	return t.In(c.location()).Format(isoTime)
}

// slurmSpan prints a duration as squeue does: 0:14, 30:00, 2:00:00, 1-00:00:00.
func slurmSpan(d time.Duration) string {
	s := int(d.Seconds())
	days, hours, minutes, seconds := s/86400, s/3600%24, s/60%60, s%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, hours, minutes, seconds)
	case hours > 0:
		return fmt.Sprintf("%d:%02d:%02d", hours, minutes, seconds)
	}
	return fmt.Sprintf("%d:%02d", minutes, seconds)
}

// longSpan prints a duration as scontrol does: 00:30:00, 1-00:00:00.
func longSpan(d time.Duration) string {
	s := int(d.Seconds())
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// hourSpan prints a duration as PBS does: 24 hours do not become a day.
func hourSpan(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// parseSlurmTime reads sbatch --time: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S.
func parseSlurmTime(text string) (time.Duration, bool) {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, rest = "0", text
	}
	fields := strings.Split(rest, ":")
	units := []time.Duration{time.Minute, time.Second}
	if hasDays || len(fields) == 3 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	total, err := strconv.Atoi(days)
	if err != nil || len(fields) > len(units) {
		return 0, false
	}
	return sumSpan(time.Duration(total)*24*time.Hour, fields, units)
}

// megabytes reads an amount of memory: 200, 200M and 8G of Slurm, 200mb and 8gb of PBS.
func megabytes(text string) int {
	digits := strings.TrimRight(strings.ToLower(text), "kmgtb")
	n, _ := strconv.Atoi(digits)
	unit, _, _ := strings.Cut(strings.ToLower(text[len(digits):]), "b")
	switch unit {
	case "k":
		return n >> 10
	case "g":
		return n << 10
	case "t":
		return n << 20
	}
	return n
}

// parseWalltime reads PBS's walltime: S, M:S, H:M:S.
func parseWalltime(text string) (time.Duration, bool) {
	fields := strings.Split(text, ":")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if len(fields) > len(units) {
		return 0, false
	}
	return sumSpan(0, fields, units[len(units)-len(fields):])
}

func sumSpan(total time.Duration, fields []string, units []time.Duration) (time.Duration, bool) {
	for i, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 {
			return 0, false
		}
		total += time.Duration(n) * units[i]
	}
	return total, true
}
