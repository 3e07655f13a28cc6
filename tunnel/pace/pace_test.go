package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAStreamOfSmallMessagesIsNoBulkTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured := false
		f, _ := NewMeter(Connection{Spawn: func(func()) bool { measured = true; return true }}).Streams()
		for range 24 * 3600 * 2 { // a day of a page's messages
			f.Add(2 << 10)
			time.Sleep(time.Second / 2)
		}
		if measured {
			t.Error("the link is measured")
		}
		for range 10 {
			f.Add(100 << 10)
			time.Sleep(100 * time.Millisecond)
		}
		if !measured {
			t.Error("a download behind them is not found")
		}
	})
}

func TestATransferThatWaitsForItsTurnEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		p := &pacer{meter: &Meter{conn: Connection{Done: done}}, control: rateControl{rate: 1}, next: time.Now().Add(time.Hour)}
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(done) })
		p.wait(1)
		if took := time.Since(start); took != time.Second {
			t.Errorf("after %v", took)
		}
	})
}
