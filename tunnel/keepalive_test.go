package tunnel

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestLateBytesDoNotHideADeadLinkOfAnSSHProgram(t *testing.T) {
	local, remote := net.Pipe()
	defer func() { _ = local.Close() }()
	defer func() { _ = remote.Close() }()
	w := newWire(local)
	w.seen = true // the greeting has come
	p := newPulse(&conn{wire: w, mute: true, interval: time.Hour})
	defer p.stop()
	p.waiting = true // for an answer that never comes
	p.probe(time.Hour)

	go func() { _, _ = io.WriteString(remote, "late") }()
	if _, err := io.ReadFull(w, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if err := p.beat(time.Now()); err != nil {
		t.Errorf("with bytes heard: %v", err)
	}
	if err := p.beat(time.Now()); err == nil {
		t.Error("the probe ended without an answer")
	}
}
