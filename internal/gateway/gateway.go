// Package gateway is the server side of SSH on a private stream: whoever speaks to
// it, a stock ssh, scp, rsync or VS Code, gets channels of a connection that is
// already logged in, and so is asked for nothing.
//
// It passes sessions with all that belongs to them, and connections to addresses
// and sockets beyond the host. What the host refuses stays refused, in its own
// words. The gateway asks for no login itself: only who can open the private stream
// can speak to it. It owns no connection: that is its caller's, behind [Host].
package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Host is the connection that channels are passed on to.
type Host interface {
	OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error)
}

// Options say what one guest is given.
type Options struct {
	Name string     // of the host, for messages
	Host Host       // where channels go
	Key  ssh.Signer // the gateway's own host key
	Log  *slog.Logger
	// PatienceBeforeNotice is how long a session may wait for its turn before the
	// guest is told; zero is a second.
	PatienceBeforeNotice time.Duration
}

// handshakeTimeout bounds the beginning: a guest has nothing to ask a person for.
const handshakeTimeout = 30 * time.Second

// Serve speaks to one guest until it leaves or ctx ends, and then leaves nothing of it
// behind: every channel that was opened for it is closed.
func Serve(ctx context.Context, stream net.Conn, o Options) error {
	if o.PatienceBeforeNotice == 0 {
		o.PatienceBeforeNotice = time.Second
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	_ = stream.SetDeadline(time.Now().Add(handshakeTimeout))
	conn, channels, requests, err := ssh.NewServerConn(stream, config(o.Key))
	if err != nil {
		return fmt.Errorf("the client did not complete the SSH handshake: %w", err)
	}
	_ = stream.SetDeadline(time.Time{})

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = conn.Close() }()
	wg.Go(func() { answerGlobal(requests) })
	wg.Go(func() {
		_ = conn.Wait()
		cancel() // what still waits for its turn need not
	})
	g := &guest{Options: o}
	for ch := range channels {
		wg.Go(func() { g.pass(ctx, ch) })
	}
	return nil
}

// config lets everybody in who could open the stream.
func config(key ssh.Signer) *ssh.ServerConfig {
	c := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-tunctl"}
	// Go's AES-GCM is the quickest, and the stream never leaves this machine.
	c.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES256CTR}
	c.AddHostKey(key)
	return c
}

// answerGlobal answers what concerns the connection as a whole (RFC 4254, section 4).
// None of it is passed on, since the connection is shared: a guest's
// no-more-sessions@openssh.com would end it for all others. A keepalive is answered
// here: when the host's connection ends, so do the guest's channels. Listening on the
// host (tcpip-forward) is refused.
func answerGlobal(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(r.Type == keepalive, nil)
		}
	}
}

// guest is one client of the gateway.
type guest struct{ Options }

// passed are the kinds of channels a guest may open.
var passed = []string{kindSession, "direct-tcpip", "direct-streamlocal@openssh.com"}

const (
	kindSession = "session"
	keepalive   = "keepalive@openssh.com"
)

// pass carries one channel from its opening to its end.
func (g *guest) pass(ctx context.Context, asked ssh.NewChannel) {
	if !slices.Contains(passed, asked.ChannelType()) {
		_ = asked.Reject(ssh.UnknownChannelType, "the gateway does not support channels of type "+asked.ChannelType())
		return
	}
	near, far, ok := g.open(ctx, asked)
	if !ok {
		return
	}
	g.Log.Debug("a guest's channel", "host", g.Name, "kind", asked.ChannelType())
	join(ctx, near, far, asked.ChannelType() == kindSession)
}
