package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/sshtest"
)

// ending is how one side ends a conversation.
type ending int

const (
	endsTogether ending = iota // half-closes, and reads to the end
	endsByReset
)

// part is what one side of a conversation does.
type part struct {
	writes []int // sizes
	pauses []int // how often it yields after each write
	slow   bool  // reads little at a time
	end    ending
}

func randomPart(r *rand.Rand) part {
	p := part{slow: r.IntN(4) == 0}
	for range r.IntN(12) {
		size := 1 + r.IntN(200)
		switch r.IntN(4) {
		case 0:
			size = 1 + r.IntN(500_000)
		case 1:
			size = idleBuffer*(1+r.IntN(3)) + r.IntN(3) - 1
		}
		p.writes = append(p.writes, size)
		p.pauses = append(p.pauses, r.IntN(20))
	}
	return p
}

func (p part) bytes(seed byte) []byte {
	var b []byte
	for _, n := range p.writes {
		for range n {
			b = append(b, seed+byte(len(b)*7>>3))
		}
	}
	return b
}

// heard is what one side received from the other.
type heard struct {
	bytes []byte
	whole bool // it ended with an end of file and without a failure
}

// play plays a part on c and returns what it received.
func (p part) play(c *net.TCPConn, seed byte) heard {
	_ = c.SetDeadline(time.Now().Add(longest))
	var failed error // the system reports a reset once, to a read or to a write
	got := make(chan heard, 1)
	go func() {
		var src io.Reader = c
		if p.slow {
			src = oneKB{c}
		}
		b, err := io.ReadAll(src)
		got <- heard{b, err == nil}
	}()
	words := p.bytes(seed)
	for i, n := range p.writes {
		if _, failed = c.Write(words[:n]); failed != nil {
			break
		}
		words = words[n:]
		for range p.pauses[i] {
			runtime.Gosched()
		}
	}
	if p.end == endsByReset {
		_ = c.SetLinger(0)
		_ = c.Close()
	} else {
		_ = c.CloseWrite()
	}
	h := <-got
	h.whole = h.whole && failed == nil
	return h
}

type oneKB struct{ io.Reader }

func (r oneKB) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(len(b), 1<<10)]) }

// converse plays two parts over a connection to address, whose other end arrives on ends.
func converse(t *testing.T, address string, ends <-chan *net.TCPConn, client, server part) (atClient, atServer heard) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { atClient = client.play(c.(*net.TCPConn), 'c') })
	s := <-ends
	atServer = server.play(s, 's')
	both.Wait()
	_ = c.Close()
	_ = s.Close()
	return atClient, atServer
}

// stage starts a server that hands its connections to the test, and a forward to it.
func stage(t *testing.T, http bool) (directly, through string, ends chan *net.TCPConn, f *Forward) {
	ends = make(chan *net.TCPConn)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ends)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			ends <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		for c := range ends {
			_ = c.Close()
		}
	})
	// Shared, since a connection that its client has reset has no owner any more.
	f = listen(t, ListenOptions{Shared: true})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: l.Addr().String(), HTTP: http})
	return l.Addr().String(), f.Addr().String(), ends, f
}

func TestAStreamThroughAForwardIsAsADirectOne(t *testing.T) {
	directly, through, ends, _ := stage(t, false)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		client, server := randomPart(r), randomPart(r)
		c0, s0 := converse(t, directly, ends, client, server)
		c1, s1 := converse(t, through, ends, client, server)
		same(t, fmt.Sprintf("seed %d, at the client", seed), c0, c1)
		same(t, fmt.Sprintf("seed %d, at the server", seed), s0, s1)
	}
}

func same(t *testing.T, where string, want, got heard) {
	t.Helper()
	if !bytes.Equal(got.bytes, want.bytes) || got.whole != want.whole {
		t.Errorf("%s: %d bytes, whole %v; directly %d bytes, whole %v", where, len(got.bytes), got.whole, len(want.bytes), want.whole)
	}
}

func TestAResetArrivesAsAReset(t *testing.T) {
	_, through, ends, _ := stage(t, false)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		client, server := randomPart(r), randomPart(r)
		who, left := "client", &client
		if seed%2 == 0 {
			who, left = "server", &server
		}
		left.end = endsByReset
		atClient, atServer := converse(t, through, ends, client, server)
		other, words := atServer, client.bytes('c')
		if who == "server" {
			other, words = atClient, server.bytes('s')
		}
		if other.whole {
			t.Errorf("seed %d: the %s's reset arrived as an end", seed, who)
		}
		if !bytes.HasPrefix(words, other.bytes) {
			t.Errorf("seed %d: wrong bytes from the %s before its reset", seed, who)
		}
	}
}

func TestASlowReaderStopsTheSender(t *testing.T) {
	_, through, ends, f := stage(t, false)
	c, err := net.Dial("tcp", through)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	s := <-ends
	defer closing(s)
	const flood = 64 << 20
	_ = s.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := s.Write(make([]byte, flood))
	if err == nil {
		t.Fatalf("%d bytes went nowhere", n)
	}
	if held := f.Status().BytesIn; held > 16<<20 { // the sockets' own buffers count in
		t.Errorf("%d bytes were taken for a client that reads none", held)
	}
}

func TestBusyBuffersAreBounded(t *testing.T) {
	var b buffers
	var taken []*[busyBuffer]byte
	for range maxBusy {
		taken = append(taken, b.get())
	}
	if b.get() != nil {
		t.Error("one more was given")
	}
	b.put(taken[0])
	if b.get() == nil {
		t.Error("one given back was not given again")
	}
}

func TestThousandsOfConnectionsAtOnceLoseNothing(t *testing.T) {
	const many = 2000
	address := far(t, func(c *net.TCPConn) { echo(c) })
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address})
	conns := make([]net.Conn, many)
	before := inUse()
	for i := range conns {
		conns[i] = dialForward(t, f)
		fmt.Fprintf(conns[i], "%08d", i)
	}
	for i, c := range conns {
		got := make([]byte, 8)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != fmt.Sprintf("%08d", i) {
			t.Fatalf("connection %d: %q, %v", i, got, err)
		}
	}
	if got := f.Status().Conns; got != many {
		t.Errorf("%d connections", got)
	}
	if each := (inUse() - before) / many; each > 100<<10 {
		t.Errorf("%d bytes a connection, the test's own ends included", each)
	}
	for _, c := range conns {
		_ = c.Close()
	}
}

// inUse is the memory in use.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// overSSH is a Dialer through an SSH connection to a server in this process.
func overSSH(t *testing.T) Dialer {
	t.Helper()
	s := sshtest.NewServer(t, sshtest.AcceptAnybody)
	s.Channel = passOn
	client := s.Client(t)
	return dialerFunc(func(_ context.Context, network, address string) (net.Conn, error) {
		return client.Dial(network, address)
	})
}

// passOn serves a direct-tcpip channel (RFC 4254, section 7.2).
func passOn(nc ssh.NewChannel) {
	var to struct {
		Host     string
		Port     uint32
		From     string
		FromPort uint32
	}
	_ = ssh.Unmarshal(nc.ExtraData(), &to)
	dialled, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		closing(dialled)
		return
	}
	var up, rest sync.WaitGroup
	rest.Go(func() { ssh.DiscardRequests(requests) })
	up.Go(func() {
		_, _ = io.Copy(dialled, ch)
		_ = dialled.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(ch, dialled)
	_ = ch.CloseWrite()
	up.Wait()
	_ = ch.Close()
	rest.Wait()
	closing(dialled)
}

func TestAStreamOverSSHIsAsADirectOne(t *testing.T) {
	directly, through, ends, f := stage(t, false)
	f.Open(Target{Dialer: overSSH(t), Network: "tcp", Address: directly})
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		client, server := randomPart(r), randomPart(r)
		c0, s0 := converse(t, directly, ends, client, server)
		c1, s1 := converse(t, through, ends, client, server)
		same(t, fmt.Sprintf("seed %d, at the client", seed), c0, c1)
		same(t, fmt.Sprintf("seed %d, at the server", seed), s0, s1)
	}
}
