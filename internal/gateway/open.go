package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
)

// side is one end of a passed channel with the requests that come from it.
type side struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

type opened struct {
	side side
	err  error
}

// open opens the far channel and then accepts the near one, so that a refusal reaches
// the guest as the host gave it. A session that has to wait for its turn is accepted
// first: only then can the guest be told.
func (g *guest) open(ctx context.Context, asked ssh.NewChannel) (near, far side, ok bool) {
	results := make(chan opened, 1)
	go func() {
		ch, requests, err := g.Host.OpenChannel(ctx, asked.ChannelType(), asked.ExtraData())
		results <- opened{side{ch, requests}, err}
	}()
	var notice <-chan time.Time
	if asked.ChannelType() == kindSession {
		timer := time.NewTimer(g.PatienceBeforeNotice)
		defer timer.Stop()
		notice = timer.C
	}
	select {
	case r := <-results:
		if r.err != nil {
			reject(asked, r.err)
			return near, far, false
		}
		if near, ok = accept(asked); !ok {
			abandon(r.side)
		}
		return near, r.side, ok
	case <-notice:
		return g.openLate(asked, results)
	}
}

// openLate tells the guest that its session waits, and waits.
func (g *guest) openLate(asked ssh.NewChannel, results <-chan opened) (near, far side, ok bool) {
	near, accepted := accept(asked)
	if accepted {
		fmt.Fprintf(near.Stderr(), "tunctl: waiting until another shell or copy ends: %s limits how many one connection may have\r\n", g.Name)
	}
	r := <-results
	switch {
	case r.err == nil && accepted:
		return near, r.side, true
	case r.err == nil:
		abandon(r.side)
	case accepted:
		refuseLate(near, r.err)
	}
	return near, far, false
}

func accept(asked ssh.NewChannel) (side, bool) {
	ch, requests, err := asked.Accept()
	return side{ch, requests}, err == nil
}

// reject passes a refusal on, by the host's own reason where it gave one.
func reject(asked ssh.NewChannel, err error) {
	if refusal, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		_ = asked.Reject(refusal.Reason, refusal.Message)
		return
	}
	_ = asked.Reject(ssh.ConnectionFailed, err.Error())
}

// ownFailure is the exit status of what is ssh's own failure, not the command's.
const ownFailure = 255

// refuseLate ends a session that was accepted before the host refused it.
func refuseLate(near side, err error) {
	fmt.Fprintf(near.Stderr(), "tunctl: error: %v\r\n", err)
	_, _ = near.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, ownFailure))
	abandon(near)
}

// abandon closes a channel that nobody uses, and waits for its end.
func abandon(s side) {
	_ = s.Close()
	ssh.DiscardRequests(s.requests)
}
