package action

import (
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/show"
)

// NothingCancelled is said to who answers a [CancelQuestion] with anything but yes.
const NothingCancelled = "nothing was cancelled"

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
	return "Cancel " + strings.Join(jobs, " and ") + "?"
}

// CancelledText says that a job was ended.
func CancelledText(j api.Job) string { return "job " + j.ID + " was cancelled" }
