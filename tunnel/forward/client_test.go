package forward

import (
	"testing"
	"time"
)

func TestWhoWaitsForATargetIsReportedAndAPersonIsToldFromAProgram(t *testing.T) {
	for name, tt := range map[string]struct {
		request string
		person  bool
	}{
		"a browser that opens the page": {"GET /lab HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n", true},
		"a waiting page":                {"HEAD /lab HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n" + waitPoll + ": 1\r\n\r\n", false},
		"a page's own request":          {"GET /api/kernels HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", false},
		"a client that speaks no HTTP":  {"\x00\x01", false},
	} {
		t.Run(name, func(t *testing.T) {
			waits := make(chan bool, 100)
			f := listen(t, ListenOptions{Name: "jupyter", HoldFor: 200 * time.Millisecond, Waiting: func(person bool) { waits <- person }})
			f.Withdraw(Reason{Title: "Reconnecting", Transient: true})
			c := dialForward(t, f)
			say(c, tt.request)
			_, _ = c.Read(make([]byte, 1))
			if len(waits) == 0 {
				t.Fatal("nobody waits")
			}
			person := false
			for len(waits) > 0 {
				person = <-waits || person
			}
			if person != tt.person {
				t.Errorf("a person: %v", person)
			}
		})
	}
}
