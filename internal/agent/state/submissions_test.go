package state

import (
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestASubmissionInDoubtLeavesTheListOnlyAfterTwoMisses(t *testing.T) {
	end := time.Now()
	for name, tt := range map[string]struct {
		misses []time.Duration // after the submit command ended
		left   int
	}{
		"one, late":                    {[]time.Duration{time.Hour}, 1},
		"two, early":                   {[]time.Duration{time.Minute, 9 * time.Minute}, 1},
		"two, late, but together":      {[]time.Duration{time.Hour, time.Hour + 30*time.Second}, 1},
		"two, apart, the second late":  {[]time.Duration{time.Minute, 10 * time.Minute}, 0},
		"three, of which two were too": {[]time.Duration{time.Hour, time.Hour + 30*time.Second, time.Hour + time.Minute}, 0},
	} {
		list := Submissions{{Tag: "a", Role: RoleJob, When: end}, {Tag: "b", Role: RoleNext, Job: &api.Job{ID: "7"}}}
		for _, after := range tt.misses {
			list = list.Miss(list.As(RoleJob), end.Add(after))
		}
		if len(list) != 1+tt.left {
			t.Errorf("%s: %+v", name, list)
		}
	}
	underWay := Submissions{{Tag: "a", Role: RoleJob}}
	if list := underWay.Miss(underWay[0], end).Miss(underWay[0], end.Add(time.Hour)); len(list) != 1 {
		t.Error("a submission whose command may be under way was dropped")
	}
}

func TestANewSubmissionLeavesTheOneInDoubtInTheList(t *testing.T) {
	list := Submissions{{Tag: "a", Role: RoleJob, Doubt: true, When: time.Now()}}.Put(Submission{Tag: "b", Role: RoleJob})
	if len(list) != 2 || list.As(RoleJob).Tag != "b" || list.As(RoleOther).Tag != "a" || !list.Pending() {
		t.Errorf("%+v", list)
	}
	alone := Submissions{{Tag: "c", Role: RoleNext, Job: &api.Job{ID: "8", State: api.JobQueued}}}.CancelAll()
	if !alone.As(RoleNext).Cancel || len(alone.Unsettled()) != 1 {
		t.Errorf("one that follows nothing any more is not ended: %+v", alone)
	}
	list = list.CancelAll()
	if len(list.Unsettled()) != 2 || !list.AnyLive() {
		t.Errorf("a person wants them ended: %+v", list)
	}
}

func TestAJobNumberUsedAgainIsAnotherJob(t *testing.T) {
	at := time.Date(2026, 8, 1, 9, 0, 0, 0, time.UTC)
	was := api.Job{ID: "7", Name: "nb", Submitted: at}
	tagged := Submission{Tag: "nb-x", Job: &was, Account: "a@b"}
	found := Submission{Job: &was, Account: "a@b"}
	for name, tt := range map[string]struct {
		sub     Submission
		job     api.Job
		account string
		want    bool
	}{
		"the same":                      {found, was, "a@b", true},
		"of our tag, requeued":          {tagged, api.Job{Name: "nb", Submitted: at.AddDate(0, 0, 2), Script: "/h/.tunctl/nb-x/nb.sh"}, "a@b", true},
		"of another tag":                {tagged, api.Job{Name: "nb", Submitted: at, Script: "/h/.tunctl/nb-y/nb.sh"}, "a@b", false},
		"of another name":               {found, api.Job{Name: "production", Submitted: at}, "a@b", false},
		"months later":                  {tagged, api.Job{Name: "nb", Submitted: at.AddDate(0, 3, 0)}, "a@b", false},
		"a moment later, by our clock":  {tagged, api.Job{Name: "nb", Submitted: at.Add(time.Minute)}, "a@b", true},
		"requeued":                      {found, api.Job{Name: "nb", Submitted: at.AddDate(0, 0, 2), Restarts: 1}, "a@b", true},
		"elsewhere, a moment later":     {found, api.Job{Name: "nb", Submitted: at.Add(time.Minute)}, "a@c", false},
		"elsewhere, at the same moment": {found, api.Job{Name: "nb", Submitted: at}, "a@c", true},
	} {
		if got := tt.sub.Matches(tt.job, tt.account); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
