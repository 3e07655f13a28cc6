package state

import (
	"testing"
	"time"
	"unsafe"

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

func TestDoubt(t *testing.T) {
	// setForward is a time whose wall clock was set forward: its whole seconds are above the lower 30
	// bits of the first word, and its monotonic reading is in the second.
	setForward := func(at time.Time, d time.Duration) time.Time {
		*(*uint64)(unsafe.Pointer(&at)) += uint64(d/time.Second) << 30
		return at
	}
	began := time.Now()
	if set := setForward(began, time.Hour); set.Sub(began) != 0 || set.Round(0).Sub(began.Round(0)) != time.Hour {
		t.Fatal("the clock is not set")
	}
	t.Run("lasts ten minutes, whatever the clock says", func(t *testing.T) {
		list := Submissions{{Tag: "a", Role: RoleJob, When: began}}
		for minute := range 10 {
			list = list.Miss(list.As(RoleJob), setForward(began.Add(time.Duration(minute)*time.Minute), time.Hour))
		}
		if len(list) != 1 {
			t.Error("given up early")
		}
		if list = list.Miss(list[0], began.Add(DoubtTime)); len(list) != 0 {
			t.Error("never given up")
		}
	})
	t.Run("begins again with an agent", func(t *testing.T) {
		old := began.Add(-time.Hour).Round(0)
		list := Submissions{{Tag: "a", Role: RoleJob, When: old, Missed: old}, {Tag: "b", Role: RoleOther}}.Restarted("hpc", began)
		for _, s := range list {
			if !s.When.Equal(began) || !s.Missed.IsZero() || s.Host != "hpc" {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestANewSubmissionLeavesTheOneInDoubtInTheList(t *testing.T) {
	list := Submissions{{Tag: "a", Role: RoleJob, Doubt: true, When: time.Now()}}.Put(Submission{Tag: "b", Role: RoleJob})
	if len(list) != 2 || list.As(RoleJob).Tag != "b" || list.As(RoleOther).Tag != "a" || !list.Pending() {
		t.Errorf("%+v", list)
	}
	alone := Submissions{{Tag: "c", Role: RoleNext, Job: &api.Job{ID: "8", State: api.JobQueued}}}.CancelAll(time.Now())
	if !alone.As(RoleNext).Cancel || len(alone.Unsettled()) != 1 {
		t.Errorf("one that follows nothing any more is not ended: %+v", alone)
	}
	list = list.CancelAll(time.Now())
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
