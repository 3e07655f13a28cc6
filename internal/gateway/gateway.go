// Package gateway is an SSH server on a private stream. Its clients, such as ssh, scp,
// rsync or VS Code, get channels of a connection that is already logged in.
//
// It forwards sessions, and connections to addresses and sockets behind the host, and
// returns the host's refusals as they are. It needs no login: only its owner can open
// the private stream. It owns no connection: that is the caller's [Machine].
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

// Machine is where programs run and connections begin: a host, or a node inside a job.
type Machine interface {
	OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Options configure the server for one client.
type Options struct {
	Name string     // of the host, for messages
	Host Machine    // where channels go
	Key  ssh.Signer // the gateway's own host key
	Log  *slog.Logger
	// NoticeAfter is how long a session may take to open before the client is told.
	NoticeAfter time.Duration
	// Waiting is what the client is told then; "": that all sessions of the host are in use.
	Waiting string
	// Notices returns what the client is to be told when its next program has started; nil:
	// nothing.
	Notices func() []string
}

// handshakeTimeout bounds the handshake, which waits for no user.
const handshakeTimeout = 30 * time.Second

// Serve serves one client until it disconnects or ctx ends, and then closes every
// channel that was opened for it.
func Serve(ctx context.Context, stream net.Conn, o Options) error {
	if o.Waiting == "" {
		o.Waiting = fmt.Sprintf("waiting until another shell or copy ends: %s limits how many one connection may have", o.Name)
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
		cancel() // for channels that still wait for their turn
	})
	s := &server{Options: o}
	for ch := range channels {
		wg.Go(func() { s.serveChannel(ctx, ch) })
	}
	return nil
}

// config accepts every client that could open the stream.
func config(key ssh.Signer) *ssh.ServerConfig {
	c := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-tunctl"}
	// Go's AES-GCM is the quickest, and the stream never leaves this machine.
	c.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES256CTR}
	c.AddHostKey(key)
	return c
}

// answerGlobal answers requests about the whole connection (RFC 4254, section 4). It
// forwards none, since the connection is shared: one client's
// no-more-sessions@openssh.com would apply to all others. It answers a keepalive itself:
// when the host's connection ends, so do the client's channels. Listening on the host
// (tcpip-forward) is refused.
func answerGlobal(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(r.Type == keepalive, nil)
		}
	}
}

// server serves one client.
type server struct{ Options }

// channelTypes are the types of channels that a client may open.
var channelTypes = []string{kindSession, "direct-tcpip", "direct-streamlocal@openssh.com"}

const (
	kindSession = "session"
	keepalive   = "keepalive@openssh.com"
)

// serveChannel serves one channel from its opening to its end.
func (s *server) serveChannel(ctx context.Context, newChannel ssh.NewChannel) {
	if !slices.Contains(channelTypes, newChannel.ChannelType()) {
		_ = newChannel.Reject(ssh.UnknownChannelType, "the gateway does not support channels of type "+newChannel.ChannelType())
		return
	}
	client, host, ok := s.open(ctx, newChannel)
	if !ok {
		return
	}
	s.Log.Debug("opened a channel for a client", "host", s.Name, "kind", newChannel.ChannelType())
	s.join(ctx, client, host, newChannel.ChannelType() == kindSession)
}
