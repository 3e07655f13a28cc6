package gateway

import (
	"context"
	"io"
	"sync"
)

// startRequests are those that start a session's one program (RFC 4254, section 6.5).
var startRequests = map[string]bool{"shell": true, "exec": true, "subsystem": true}

// kept are requests that would make the host open channels back to us, which lead
// nowhere: saying no at once keeps a program there from waiting for its X server or
// ssh agent.
var kept = map[string]bool{"auth-agent-req@openssh.com": true, "x11-req": true}

// join carries data and requests between two open channels until both are closed.
func join(ctx context.Context, near, far side, session bool) {
	end := func() {
		_ = near.Close()
		_ = far.Close()
	}
	defer context.AfterFunc(ctx, end)()
	started := make(chan struct{}) // the guest's data may flow
	if !session {
		close(started)
	}
	// A program may end before the word that it was started has been passed on.
	var answering sync.Mutex
	var wg sync.WaitGroup
	wg.Go(func() {
		passUp(near, far, session, started, &answering)
		_ = far.Close() // the guest closed its channel: what it started gets its hangup
	})
	wg.Go(func() { sendUp(near, far, started) })
	passDown(near, far)
	answering.Lock()
	end()
	answering.Unlock()
	wg.Wait()
}

// sendUp carries the guest's data to the host. sshd drops what comes before a
// session's program is started, so data waits for that.
func sendUp(near, far side, started <-chan struct{}) {
	<-started
	carry(far, near)
	_ = far.CloseWrite()
}

// passUp hands the guest's requests on, in order, with the host's answers. It returns
// when the guest has closed its channel, and by then has let the data go.
func passUp(near, far side, session bool, started chan struct{}, answering sync.Locker) {
	waiting := session
	for r := range near.requests {
		answering.Lock()
		ok := false
		if !kept[r.Type] {
			ok, _ = far.SendRequest(r.Type, r.WantReply, r.Payload)
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		answering.Unlock()
		if waiting && startRequests[r.Type] {
			waiting = false
			close(started)
		}
	}
	if waiting {
		close(started)
	}
}

// passDown carries what comes from the host, and returns when the host has closed its
// channel and all that it sent is passed on: an exit status is the last of it. The
// host's own keepalive is answered here: a guest that was suspended must not cost
// everybody the connection.
func passDown(near, far side) {
	var wg sync.WaitGroup
	wg.Go(func() {
		var out sync.WaitGroup
		out.Go(func() { carry(near.Stderr(), far.Stderr()) })
		carry(near, far)
		out.Wait()
		_ = near.CloseWrite()
	})
	for r := range far.requests {
		ok := false
		if r.Type != keepalive {
			ok, _ = near.SendRequest(r.Type, r.WantReply, r.Payload)
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
	wg.Wait()
}

// bufferSize is twice what one packet of a channel holds.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// carry copies one direction to its end. What breaks it shows at the channel's close.
func carry(to io.Writer, from io.Reader) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	_, err := io.CopyBuffer(to, from, buf[:])
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // so that the other end's window does not fill
	}
}
