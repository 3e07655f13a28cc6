// Package gateway is an SSH server on a private stream. Its clients, such as ssh, scp,
// rsync or VS Code, get channels of a connection that is already logged in.
//
// It forwards sessions, and connections to addresses and sockets behind the host, and
// returns the host's refusals as they are. It needs no login: only its owner can open
// the private stream. It owns no connection: that is the caller's [Machine].
package gateway

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/atomicfile"
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

// config accepts every client that could open the stream. One such as paramiko has to show a key
// or a password: any will do.
func config(key ssh.Signer) *ssh.ServerConfig {
	c := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-tunctl"}
	c.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }
	c.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }
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

// Alias is the name of the gateway's host key in known_hosts, for HostKeyAlias.
const Alias = "tunctl-gateway"

// KnownHosts is the known_hosts file, in the gateway's folder, with its host key.
func KnownHosts(dir string) string { return filepath.Join(dir, "known_hosts") }

// HostKey is the gateway's own host key, in a folder that only its owner can enter. The
// first call creates it, and the known_hosts file next to it.
func HostKey(dir string) (ssh.Signer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "host_key")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			data, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid key: %w", path, err)
	}
	line := fmt.Sprintf("%s %s", Alias, ssh.MarshalAuthorizedKey(key.PublicKey()))
	if known, err := os.ReadFile(KnownHosts(dir)); err == nil && string(known) == line {
		return key, nil
	}
	return key, atomicfile.Write(KnownHosts(dir), []byte(line), 0o600)
}

// makeKey creates a key, unless another process was faster.
func makeKey(path string) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, Alias)
	if err == nil {
		err = atomicfile.Create(path, pem.EncodeToMemory(block), 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

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
	wg.Go(func() {
		<-started                  // sshd drops data that comes before a session's program is started
		_ = copyData(host, client) // it shows at the channel's close
		_ = host.CloseWrite()
	})
	forwardHost(client, host, session)
	answering.Lock()
	end()
	answering.Unlock()
	wg.Wait()
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
