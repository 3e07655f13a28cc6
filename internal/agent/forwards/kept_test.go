package forwards

import (
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

func TestAKeptPageEndsWithItsTabAndAfterAnHour(t *testing.T) {
	for name, tt := range map[string]struct {
		polls time.Duration // how long the tab does
		want  time.Duration
	}{
		"a tab that is closed at once":    {0, tabGone},
		"a tab that is closed later":      {22 * time.Minute, 35 * time.Minute},
		"a tab that stays open for a day": {24 * time.Hour, keepFor},
		"a tab that waits for an answer":  {-1, keepFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				whileTab(t.Context(), func() api.Forward {
					if tt.polls < 0 {
						return api.Forward{Conns: 1}
					}
					return api.Forward{LastUsed: began.Add(min(time.Since(began), tt.polls))}
				})
				if got := time.Since(began); got != tt.want {
					t.Errorf("it was kept for %s, want %s", got, tt.want)
				}
			})
		})
	}
}
