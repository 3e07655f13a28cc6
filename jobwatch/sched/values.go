package sched

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeLayouts are the forms in which schedulers print times. The zone is that of our query.
var timeLayouts = []string{"2006-01-02T15:04:05", time.ANSIC, "2006-01-02 15:04:05", "01/02/2006 15:04:05"}

// ParseTime reads a time in one of timeLayouts, or seconds since 1970, or thousandths or millionths
// of them; zero for anything else.
func ParseTime(s string) time.Time {
	s = strings.TrimSpace(s)
	if s == "" {
		return time.Time{} // most fields of a long list are: an error costs more than all the rest
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		for n > 1e11 {
			n /= 1000
		}
		return time.Unix(n, 0).UTC()
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}

// ParseClockTime reads seconds, MM:SS or HH:MM:SS, with any number of hours and perhaps a fraction
// of a second.
func ParseClockTime(s string) time.Duration {
	if s == "" {
		return 0
	}
	total := 0.0
	for part := range strings.SplitSeq(s, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || n < 0 || n > 1e7 {
			return 0
		}
		total = total*60 + n
	}
	return time.Duration(total * float64(time.Second))
}

// ClockTime formats a time limit as schedulers read it, with hours above 24. Slurm rounds up
// to minutes.
func ClockTime(d time.Duration) string {
	s := int((d + time.Second - 1) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// ParseSize reads 21736kb, 32gb, 1.5G, 12K or a number of bytes.
func ParseSize(s string) int64 {
	s = strings.TrimSuffix(strings.ToLower(s), "b")
	factor := 1.0
	for i, unit := range []string{"k", "m", "g", "t", "p"} {
		if number, ok := strings.CutSuffix(s, unit); ok {
			s, factor = number, float64(int64(1)<<(10*(i+1)))
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 {
		return 0
	}
	return int64(n * factor)
}

// TrueFirst orders true before false.
func TrueFirst(a, b bool) int {
	rank := map[bool]int{true: -1}
	return rank[a] - rank[b]
}

// MaxStatus limits an answer: an array may have thousands of tasks of 2 KB each.
const MaxStatus = "1048576"

// HistoryFor is how long ended jobs are listed.
const HistoryFor = 24 * time.Hour
