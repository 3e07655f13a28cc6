package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// channel is one end, the client's or the host's, with the requests that come from it.
type channel struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

type opened struct {
	channel channel
	err     error
}

// open opens the host's channel and then accepts the client's, so that the client gets
// the host's own refusal. A session that takes long to open is accepted first:
// only then can the client be told.
func (s *server) open(ctx context.Context, newChannel ssh.NewChannel) (client, host channel, ok bool) {
	results := make(chan opened, 1)
	go func() {
		ch, requests, err := s.Host.OpenChannel(ctx, newChannel.ChannelType(), newChannel.ExtraData())
		results <- opened{channel{ch, requests}, err}
	}()
	var notice <-chan time.Time
	if newChannel.ChannelType() == kindSession {
		notice = time.After(s.NoticeAfter)
	}
	var r opened
	accepted := false
	select {
	case r = <-results:
	case <-notice:
		if client, accepted = accept(newChannel); accepted {
			fmt.Fprintf(client.Stderr(), "tunctl: %s\r\n", s.Waiting)
		}
		r = <-results
	}
	switch {
	case r.err == nil && !accepted:
		client, accepted = accept(newChannel) // fails if it did before
	case r.err != nil && accepted:
		refuseAccepted(client, r.err)
	case r.err != nil:
		reject(newChannel, r.err)
	}
	if r.err == nil && !accepted {
		discard(r.channel)
	}
	return client, r.channel, r.err == nil && accepted
}

func accept(newChannel ssh.NewChannel) (channel, bool) {
	ch, requests, err := newChannel.Accept()
	return channel{ch, requests}, err == nil
}

// reject rejects a channel with the host's reason, if it gave one.
func reject(newChannel ssh.NewChannel, err error) {
	if refusal, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		_ = newChannel.Reject(refusal.Reason, refusal.Message)
		return
	}
	_ = newChannel.Reject(ssh.ConnectionFailed, err.Error())
}

// sshFailure is the exit status of ssh itself, not of the command.
const sshFailure = 255

// refuseAccepted ends a session that was accepted before the host refused it.
func refuseAccepted(client channel, err error) {
	fmt.Fprintf(client.Stderr(), "tunctl: error: %v\r\n", err)
	_, _ = client.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, sshFailure))
	discard(client)
}

// discard closes a channel that nobody uses, and waits for its end.
func discard(c channel) {
	_ = c.Close()
	ssh.DiscardRequests(c.requests)
}

// startRequests are those that start a session's one program (RFC 4254, section 6.5).
var startRequests = map[string]bool{"shell": true, "exec": true, "subsystem": true}

// refusedRequests would make the host open channels to us, which the gateway does not
// serve. An immediate refusal keeps programs there from waiting for an X server or ssh
// agent.
var refusedRequests = map[string]bool{"auth-agent-req@openssh.com": true, "x11-req": true}

// join copies data and requests between two open channels until both are closed.
func (s *server) join(ctx context.Context, client, host channel, session bool) {
	end := func() {
		_ = client.Close()
		_ = host.Close()
	}
	defer context.AfterFunc(ctx, end)()
	started := make(chan struct{}) // the client's data may be sent
	if !session {
		close(started)
	}
	// A program may end before the client has the reply to the request that started it.
	var answering sync.Mutex
	var wg sync.WaitGroup
	wg.Go(func() {
		s.forwardClientRequests(client, host, session, started, &answering)
		_ = host.Close() // the client closed its channel: its program gets a hangup
	})
	wg.Go(func() { sendInput(client, host, started) })
	forwardHost(client, host, session)
	answering.Lock()
	end()
	answering.Unlock()
	wg.Wait()
}

// sendInput sends the client's data to the host. sshd drops data that comes before a
// session's program is started, so sendInput waits for that.
func sendInput(client, host channel, started <-chan struct{}) {
	<-started
	_ = copyData(host, client) // it shows at the channel's close
	_ = host.CloseWrite()
}

// forwardClientRequests forwards the client's requests in order, and the host's replies.
// It returns when the client has closed its channel, and has closed started by then.
func (s *server) forwardClientRequests(client, host channel, session bool, started chan struct{}, answering sync.Locker) {
	waiting := session
	for r := range client.requests {
		answering.Lock()
		ok := false
		if !refusedRequests[r.Type] {
			ok, _ = host.SendRequest(r.Type, r.WantReply, r.Payload)
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		answering.Unlock()
		if waiting && startRequests[r.Type] {
			waiting = false
			s.tellNotices(client)
			close(started)
		}
	}
	if waiting {
		close(started)
	}
}

// tellNotices tells the client what it should know about the machine.
func (s *server) tellNotices(client channel) {
	if s.Notices == nil {
		return
	}
	for _, text := range s.Notices() {
		fmt.Fprintf(client.Stderr(), "tunctl: %s\r\n", text)
	}
}

// forwardHost forwards the host's data and requests, and returns when the host has
// closed its channel and all of it is sent: an exit status comes last. The host's own
// keepalive is answered here: a suspended client must not end the connection of all.
// Why a session ended that lost its way is written to the client, as far as the host knows that.
func forwardHost(client, host channel, session bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		var out sync.WaitGroup
		out.Go(func() { _ = copyData(client.Stderr(), host.Stderr()) })
		lost := copyData(client, host)
		out.Wait()
		if lost != nil && session {
			fmt.Fprintf(client.Stderr(), "tunctl: error: %v\r\n", lost)
		}
		_ = client.CloseWrite()
	})
	for r := range host.requests {
		ok := false
		if r.Type != keepalive {
			ok, _ = client.SendRequest(r.Type, r.WantReply, r.Payload)
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

// copyData copies one direction to its end, which may be an error.
func copyData(to io.Writer, from io.Reader) error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	_, err := io.CopyBuffer(to, from, buf[:])
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // so that the other end's window does not fill
	}
	return err
}
