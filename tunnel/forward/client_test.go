package forward

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestWhoWaitsForATargetIsReportedAndAPersonIsToldFromAProgram(t *testing.T) {
	for name, tt := range map[string]struct {
		request string
		person  bool
	}{
		"a browser that opens the page": {"GET /lab HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n", true},
		"a waiting page":                {"GET /lab HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n" + waitPoll + ": 1\r\n\r\n", false},
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

func TestARequestOnAnOpenConnectionDoesNotWaitForALinkThatIsDown(t *testing.T) {
	const request = "GET /lab HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, tt := range map[string]struct {
		sent string
		ends bool
	}{
		"a page is reloaded":           {request, true},
		"a form is sent":               {"POST /lab HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", false},
		"a frame of an open websocket": {"\x81\x85mask", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := listen(t, ListenOptions{Name: "jupyter"})
			f.Open(Target{Dialer: direct, Network: "tcp", Address: far(t, func(c *net.TCPConn) { echo(c) }), Token: token(true)})
			c := dialForward(t, f)
			say(c, request)
			if _, err := io.ReadFull(c, make([]byte, len(request))); err != nil {
				t.Fatal(err)
			}
			f.Withdraw(Reason{Title: "Reconnecting", Transient: true})
			say(c, tt.sent)
			got := make([]byte, len(tt.sent)) // the connection to the server still lives
			if _, err := io.ReadFull(c, got); (err != nil) != tt.ends || err == nil && string(got) != tt.sent {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}
