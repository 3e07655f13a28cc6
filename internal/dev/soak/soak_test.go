package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/tunneltest"
	"tunctl/internal/lab"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/node"
	"tunctl/tunnel/sshconfig"
)

const (
	clients  = 12
	relayed  = 4               // through a job
	senders  = 4               // on the host
	maxBytes = 2 << 20         // of one stream
	patience = 2 * time.Minute // with one stream
)

// span is how long the soak takes.
func span(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("TUNCTL_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("TUNCTL_SOAK: %v", err)
		}
		return d
	}
	return 4 * time.Second
}

func TestNoByteIsWrongAndNothingLeaksUnderSteadyDrops(t *testing.T) {
	testprogram.Need(t, "python3") // for the relay inside a job
	t.Run(api.TransportNative, func(t *testing.T) { soakOver(t, api.TransportNative) })
	t.Run(api.TransportOpenSSH, func(t *testing.T) {
		if _, err := exec.LookPath("ssh"); err != nil || runtime.GOOS == "windows" {
			t.Skip("needs an ssh program that shares its connection")
		}
		soakOver(t, api.TransportOpenSSH)
	})
}

// soakOver is one soak, in half of the time.
func soakOver(t *testing.T, transport string) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	useNetwork(t)
	files := openFiles()
	length := span(t) / 2
	s := start(t, transport)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		_ = ctxtime.Sleep(ctx, length)
		// A busy machine may take longer for a first stream.
		for late := time.Now().Add(patience); ctx.Err() == nil && (s.direct.whole.Load() == 0 || s.counted.Load() == 0) && time.Now().Before(late); {
			_ = ctxtime.Sleep(ctx, 20*time.Millisecond)
		}
	})
	for i := range clients {
		wg.Go(func() { s.use(ctx, byte(i), &s.direct) })
	}
	for i := range relayed {
		wg.Go(func() { s.use(ctx, byte(clients+i), &s.relayed) })
	}
	for i := range senders {
		wg.Go(func() { s.sendBack(ctx, uint64(i)) })
	}
	s.breakLink(ctx)
	wg.Wait()
	opened := s.opened.Load()
	s.recovers(t)
	s.stop(t)
	t.Logf("%v over %s: %d faults (the ssh program died %d times), %d logins; L: %v; through a job: %v, %d were opened; R: %d whole, %d cut; %d MB compared; %d wrong or falsely complete",
		length, transport, s.faults, s.kills, s.logins, &s.direct, &s.relayed, opened, s.counted.Load(), s.uncounted.Load(), s.compared.Load()>>20, len(s.wrong))
	for _, err := range s.wrong {
		t.Error(err)
	}
	if s.direct.whole.Load() == 0 || s.counted.Load() == 0 || s.faults > 2 && s.direct.cut.Load() == 0 {
		t.Error("the soak proved nothing: no stream was whole, or none was cut")
	}
	if s.relayed.whole.Load() == 0 || s.relayed.whole.Load()+s.relayed.late.Load() < opened {
		t.Errorf("streams through a job should have continued: %v", &s.relayed)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	for fd, to := range openFiles() {
		if files[fd] != to {
			t.Errorf("%s is open still: %s", fd, to)
		}
	}
}

// soak is a forward in use, and the cluster at its other end.
type soak struct {
	cluster *lab.Cluster
	direct  streams
	relayed streams // through a job, where they outlive the connection
	back    string  // where the host listens for the remote forward
	host    *tunnel.Host
	ssh     bool // an ssh program of ours has the connection
	stop    func(*testing.T)
	faults  int
	kills   int // of the ssh program
	logins  int

	opened             atomic.Int64 // streams through a job: one that waited too long for a connection is cut, and was never there
	compared           atomic.Int64
	counted, uncounted atomic.Int64 // streams of the remote forward

	mu    sync.Mutex
	wrong []error
}

// streams are those of one forward to an echo.
type streams struct {
	forward          *forward.Forward
	whole, cut, late atomic.Int64 // late ones were given up here
}

func (s *streams) String() string {
	return fmt.Sprintf("%d streams whole, %d cut, %d late", s.whole.Load(), s.cut.Load(), s.late.Load())
}

func start(t *testing.T, transport string) *soak {
	t.Helper()
	cluster, err := lab.Start(lab.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{cluster: cluster, back: freeAddress(t), ssh: transport == api.TransportOpenSSH}
	pool := tunneltest.NewPool("", tunnel.Options{
		Limits: tunnel.PracticeLimits(),
		Resolver: func() sshconfig.Resolver {
			return sshconfig.Resolver{SSHConfig: cluster.SSHConfig(), Preset: func(_ string, s *sshconfig.Settings) { s.Transport = transport }}
		},
	})
	s.host = pool.Host(cluster.Alias())
	for _, to := range []*streams{&s.direct, &s.relayed} {
		if to.forward, err = forward.Listen(forward.ListenOptions{Name: "soak"}); err != nil {
			t.Fatal(err)
		}
	}
	remote := forward.NewRemote(forward.RemoteOptions{
		Name: "back", Listen: s.host.Listen, Network: "tcp", Address: s.back, LocalNetwork: "tcp", LocalAddress: counter.Addr().String(),
	})
	inside := insideJob{opened: &s.opened}
	ctx, cancel := context.WithCancel(context.Background())
	var wg, remotes sync.WaitGroup
	for _, serve := range []func(context.Context) error{pool.Serve, s.direct.forward.Serve, s.relayed.forward.Serve, remote.Serve, s.retries(remote)} {
		wg.Go(func() { _ = serve(ctx) }) // until ctx ends
	}
	remotes.Go(func() { serveEcho(echo) })
	remotes.Go(func() { s.serveCounter(counter) })
	s.stop = func(t *testing.T) {
		t.Helper()
		s.logins = cluster.Logins()
		inside.Close()
		cancel()
		_ = echo.Close()
		_ = counter.Close()
		wg.Wait()
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
		remotes.Wait() // a relay that could not be told to end has its connections until its job ends
	}
	s.host.Up()
	if err := s.host.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	target := forward.Target{Dialer: s.host, Network: "tcp", Address: echo.Addr().String()}
	s.direct.forward.Open(target)
	inside.Node = s.job(t)
	// As with a page, which is ready once the way into the job was found.
	if c, err := inside.DialInside(t.Context(), target.Network, target.Address, nil); err != nil {
		t.Fatal(err)
	} else if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	target.Dialer = inside
	s.relayed.forward.Open(target)
	return s
}

// insideJob dials from inside a job.
type insideJob struct {
	*node.Node
	opened *atomic.Int64
}

func (n insideJob) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.DialInside(ctx, network, address, nil)
	if err == nil {
		n.opened.Add(1)
	}
	return c, err
}

// runJob starts a job, and prints its number when it runs.
const runJob = `id=$(sbatch --parsable --time=1:00:00 --wrap 'sleep 3600') || exit
until [ "$(squeue -h -j "$id" -o %T)" = RUNNING ]; do sleep 0.05; done
echo "$id"`

// job starts a job.
func (s *soak) job(t *testing.T) *node.Node {
	t.Helper()
	res, err := s.host.Run(t.Context(), runJob, nil)
	if err != nil || res.Exit != 0 {
		t.Fatalf("no job: %v, %s", err, res.Stderr)
	}
	return node.New(s.host.Link(), node.Options{Names: []string{"cn01"}, Job: strings.TrimSpace(string(res.Stdout))})
}

func serveEcho(l net.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer func() { _ = c.Close() }()
			// Hidden behind interfaces: the runtime keeps the pipes by which it would
			// join two sockets.
			_, err := io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
			if err != nil {
				_ = c.(*net.TCPConn).SetLinger(0) // what was cut short must not look whole
			}
		})
	}
}

// breakLink does something to the link every few seconds.
func (s *soak) breakLink(ctx context.Context) {
	dice := rand.New(rand.NewPCG(7, 7))
	rest := 500 * time.Millisecond
	for ; ctxtime.Sleep(ctx, rest) == nil; rest = time.Duration(500+dice.IntN(3000)) * time.Millisecond {
		s.faults++
		switch n := dice.IntN(5); {
		case n == 4 && s.ssh:
			s.killSSH()
		case n == 0:
			s.cluster.Pause()
			_ = ctxtime.Sleep(ctx, 500*time.Millisecond)
			s.cluster.Resume()
		case n == 1:
			if err := s.cluster.Refuse(true); err != nil {
				s.fail(err)
			}
			s.cluster.DropAll()
			_ = ctxtime.Sleep(ctx, time.Second)
			if err := s.cluster.Refuse(false); err != nil {
				s.fail(err)
			}
		case n == 2 && os.Getenv("TUNCTL_SOAK") != "": // and once more during the next login; three of those make a pause
			logins := s.cluster.Logins()
			s.cluster.DropAll()
			for s.cluster.Logins() == logins && ctxtime.Sleep(ctx, time.Millisecond) == nil {
				continue
			}
			s.cluster.DropAll()
		default:
			s.cluster.DropAll()
		}
	}
}

// use sends one stream after another through the forward, of all sizes and manners.
func (s *soak) use(ctx context.Context, seed byte, by *streams) {
	noise := rand.NewChaCha8([32]byte{seed})
	dice := rand.New(noise)
	for ctx.Err() == nil {
		sent := make([]byte, 1+dice.IntN(maxBytes))
		_, _ = noise.Read(sent)
		got, err := by.exchange(sent, dice)
		s.compared.Add(int64(len(got)))
		switch {
		case len(got) > len(sent) || !bytes.Equal(got, sent[:len(got)]):
			s.fail(fmt.Errorf("%d bytes came back of %d, and not the same", len(got), len(sent)))
		case err == nil && len(got) < len(sent):
			s.fail(fmt.Errorf("a stream of %d bytes ended after %d as if that were all", len(sent), len(got)))
		case err == nil:
			by.whole.Add(1)
		case errors.Is(err, os.ErrDeadlineExceeded):
			by.late.Add(1)
		default:
			by.cut.Add(1)
			_ = ctxtime.Sleep(ctx, 20*time.Millisecond)
		}
	}
}

// exchange sends bytes, ends its side, and returns what came back.
func (s *streams) exchange(sent []byte, dice *rand.Rand) ([]byte, error) {
	c, err := net.DialTimeout("tcp", s.forward.Addr().String(), patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	pauses, step := dice.IntN(3), 1+dice.IntN(256<<10)
	written := make(chan error, 1)
	go func() {
		for left := sent; len(left) > 0; {
			n, err := c.Write(left[:min(step, len(left))])
			if err != nil {
				written <- err
				return
			}
			left = left[n:]
			if pauses > 0 {
				pauses--
				time.Sleep(time.Millisecond) // a client that thinks
			}
		}
		written <- c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	_ = c.Close()
	if werr := <-written; werr != nil && err == nil && len(got) < len(sent) {
		err = werr // it was told while it wrote
	}
	return got, err
}

// retries has a remote forward listen again as soon as the host is back.
func (s *soak) retries(remote *forward.Remote) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			changed := s.host.Changed()
			if s.host.Status().State == api.HostUp {
				remote.Retry()
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// killSSH kills the ssh program that has the connection, where the system tells which.
func (s *soak) killSSH() {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), "ssh\x00") || !strings.Contains(string(line), s.cluster.SSHConfig()) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
			s.kills++
		}
	}
}

// A counted stream begins with its seed and the number of bytes that follow, eight bytes
// each.
const countedHead = 16

// sendBack sends one counted stream after another from the host to here.
func (s *soak) sendBack(ctx context.Context, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, seed))
	for ctx.Err() == nil {
		if s.sendCounted(dice.Uint64(), 1+dice.IntN(maxBytes)) != nil {
			_ = ctxtime.Sleep(ctx, 20*time.Millisecond)
		}
	}
}

// sendCounted sends one stream, and waits until it was counted.
func (s *soak) sendCounted(seed uint64, size int) error {
	c, err := net.DialTimeout("tcp", s.back, patience)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seed), uint64(size))
	if _, err := c.Write(append(head, noise(seed, size)...)); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

func noise(seed uint64, size int) []byte {
	bytes := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte(binary.BigEndian.AppendUint64(make([]byte, 24), seed))).Read(bytes)
	return bytes
}

// serveCounter takes the counted streams.
func (s *soak) serveCounter(l net.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer func() { _ = c.Close() }()
			if s.count(c) {
				_, _ = c.Write([]byte("k"))
			}
		})
	}
}

// count checks one stream to its end, and reports whether it is whole.
func (s *soak) count(c net.Conn) bool {
	got, err := io.ReadAll(c)
	s.compared.Add(int64(len(got)))
	var seed, size uint64
	if len(got) >= countedHead {
		seed, size = binary.BigEndian.Uint64(got), binary.BigEndian.Uint64(got[8:])
	}
	got = got[min(len(got), countedHead):]
	switch {
	case size > maxBytes || uint64(len(got)) > size || !bytes.Equal(got, noise(seed, int(size))[:len(got)]):
		s.fail(fmt.Errorf("a stream of %d bytes from the host has other bytes among its first %d", size, len(got)))
	case err != nil:
		s.uncounted.Add(1)
	case size == 0 || uint64(len(got)) < size:
		s.fail(fmt.Errorf("a stream of %d bytes from the host ended after %d as if that were all", size, len(got)))
	default:
		s.counted.Add(1)
		return true
	}
	return false
}

func (s *soak) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 20 {
		s.wrong = append(s.wrong, err)
	}
}

// recovers shows that all is as before once the breakLink is over.
func (s *soak) recovers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for s.host.Status().State != api.HostUp {
		changed := s.host.Changed()
		if s.host.Status().State == api.HostUp {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the host never came back: %+v", s.host.Status())
		}
	}
	sent := []byte("as good as new")
	for _, by := range []*streams{&s.direct, &s.relayed} {
		got, err := by.exchange(sent, rand.New(rand.NewPCG(1, 1)))
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("after it all: %q, %v", got, err)
		}
		for by.forward.Status().Conns > 0 && ctxtime.Sleep(ctx, 5*time.Millisecond) == nil {
			continue // those that just ended
		}
		if conns := by.forward.Status().Conns; conns > 0 {
			t.Errorf("%d connections are left", conns)
		}
	}
}

// freeAddress is one where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// useNetwork lets the runtime open what it keeps for the network.
func useNetwork(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

// openFiles are what this process has open, where the system tells.
func openFiles() map[string]string {
	open := map[string]string{}
	list, _ := filepath.Glob("/proc/self/fd/*") // the pattern is good
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil {
			open[fd] = to
		}
	}
	return open
}
