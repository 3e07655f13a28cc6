package action

import (
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/show"
)

// NothingCancelled is said to who answers a [CancelQuestion] with anything but yes.
const NothingCancelled = "nothing was cancelled"

// CancelQuestion asks whether to end jobs, so that a person knows which ones.
func CancelQuestion(now time.Time, jobs ...api.Job) string {
	texts := make([]string, len(jobs))
	for i, j := range jobs {
		texts[i] = show.Job(j, now)
	}
	return "Cancel " + strings.Join(texts, " and ") + "?"
}

// CancelledText says that a job was ended.
func CancelledText(j api.Job) string { return "job " + j.ID + " was cancelled" }
