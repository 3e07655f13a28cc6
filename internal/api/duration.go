package api

import (
	"fmt"
	"time"
)

// DurationText writes a time span as every text of tunctl does: "45 s", "12 min",
// "1 h 00 min", "2 d 3 h 00 min".
func DurationText(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	minutes := int(d.Round(time.Minute).Minutes())
	days, hours, minutes := minutes/60/24, minutes/60%24, minutes%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h %02d min", days, hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%d h %02d min", hours, minutes)
	}
	return fmt.Sprintf("%d min", minutes)
}

// ClockText writes a time of day as every text of tunctl does, with the weekday or the date if it is not today's:
// "16:05", "Tue 16:05", "3 Mar 16:05".
func ClockText(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case t.Sub(now).Abs() < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan 15:04")
}
