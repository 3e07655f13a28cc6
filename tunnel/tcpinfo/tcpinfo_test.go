package tcpinfo

import (
	"testing"
	"time"
)

func TestALinkThatLosesPacketsIsToldFromOneThatDoesNot(t *testing.T) {
	began := time.Now()
	var m LossMeter
	m.Add(Info{Sent: 40, Resent: 1}, began)
	if m.Lossy() {
		t.Error("one segment of forty")
	}
	m.Add(Info{Sent: 80, Resent: 12}, began.Add(10*time.Second))
	if !m.Lossy() {
		t.Error("twelve segments of eighty are no loss")
	}
	for i := range 5 {
		m.Add(Info{Sent: 100 + 1000*uint64(i), Resent: 12}, began.Add(time.Duration(i+1)*lossWindow))
	}
	if m.Lossy() {
		t.Error("a link is lossy minutes after the last loss")
	}
}
