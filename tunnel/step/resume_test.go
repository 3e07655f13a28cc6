//go:build linux

package step

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"
)

// resumable is a relay whose way can be cut.
type resumable struct {
	*Conn
	relay *process
	way   *process // the relay itself, or the connector
}

func newResumable(t *testing.T) *resumable {
	t.Helper()
	p := newProcess(t)
	c, err := Start(t.Context(), p, Options{Resumable: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &resumable{Conn: c, relay: p, way: p}
	t.Cleanup(func() {
		_ = c.Close()
		if err := p.ended(); err != nil || p.stderr.Len() > 0 {
			t.Errorf("the relay ended: %v, stderr %q", err, p.stderr)
		}
	})
	return r
}

// cut ends the way, as the end of an SSH connection does.
func (r *resumable) cut() {
	_ = r.way.Close()
	<-r.Lost()
}

// resume comes back over a new way. It needs no cut before it: nobody may report one.
func (r *resumable) resume(t *testing.T) {
	t.Helper()
	p := newProcess(t)
	t.Cleanup(func() { _ = r.Close() }) // while there is the way
	if err := r.Resume(context.WithoutCancel(t.Context()), p); err != nil {
		t.Fatalf("%v; stderr %q", err, p.stderr)
	}
	r.way = p
}

func TestAShellContinuesAfterTheWayWasLost(t *testing.T) {
	c := newResumable(t)
	shell := newSession(t, c.Conn)
	shell.must(t, "pty-req", ptyRequest{Term: "xterm", Columns: 80, Rows: 24, Modes: "\x35\x00\x00\x00\x00\x00"})
	shell.must(t, "exec", text{"x=kept; echo $$; while read line; do echo $x $line; done"})
	pid := started(t, shell)
	for _, way := range []string{"a cut that is seen", "a cut that nobody reports"} {
		if strings.HasSuffix(way, "seen") {
			c.cut()
		}
		if !alive(pid) {
			t.Fatalf("after %s the shell has ended", way)
		}
		c.resume(t)
		_, _ = io.WriteString(shell, way+"\n")
		readUntil(t, shell, "kept "+way)
	}
	_ = shell.Close()
	awaitEnd(t, pid)
}

// silent is a client that a relay waits for no longer than silence, and a program of it.
type silent struct {
	*Conn
	way     *process
	silence time.Duration
	program *program
	pid     int
}

// newSilent runs a command that prints its process id. Where the machine is slower than the relay waits
// for its client, the next relay waits twice as long.
func newSilent(t *testing.T, o Options, hold time.Duration, command string, env ...string) *silent {
	t.Helper()
	for silence := time.Second; ; silence *= 2 {
		c := &silent{way: newProcess(t, env...), silence: silence}
		err := c.run(t.Context(), o, hold, command)
		if err == nil {
			leaveNone(t, c.pid)
			return c
		}
		if silence > longest {
			t.Fatalf("%v; stderr %q", err, c.way.stderr)
		}
		if c.Conn != nil {
			_ = c.Close()
		}
	}
}

func (s *silent) run(ctx context.Context, o Options, hold time.Duration, command string) (err error) {
	if s.Conn, err = start(ctx, s.way, o, s.silence, hold); err != nil {
		return err
	}
	ch, requests, err := s.OpenChannel(ctx, "session", nil)
	if err != nil {
		return err
	}
	s.program = &program{ch, requests}
	if _, err := ch.SendRequest("exec", true, ssh.Marshal(text{command})); err != nil {
		return err
	}
	_, err = fmt.Fscan(ch, &s.pid)
	return err
}

// TestHold has a client that is away for longer than the relay would live without it.
func TestHold(t *testing.T) {
	for name, env := range map[string]string{"environment": "SLURM_JOB_ID=7", "command": "TUNCTL_INSIDE=1"} {
		t.Run("the output of a command that ended, inside by its "+name, func(t *testing.T) {
			t.Parallel()
			signal := filepath.Join(t.TempDir(), "go")
			c := newSilent(t, Options{Resumable: true, Job: "7"}, time.Hour, "echo $$; until [ -e "+signal+" ]; do sleep 0.02; done; echo result; exit 7", env)
			defer func() { _ = c.Close() }()
			_ = c.way.Close()
			<-c.Lost()
			if err := os.WriteFile(signal, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			awaitEnd(t, c.pid)
			time.Sleep(c.silence + time.Second) // the relay's clock is real
			if err := c.Resume(context.WithoutCancel(t.Context()), newProcess(t)); err != nil {
				t.Fatal(err)
			}
			if out, err := io.ReadAll(c.program); string(out) != "result\n" || err != nil {
				t.Errorf("output %q, %v", out, err)
			}
			if exit := c.program.exit(t); exit != "status 7" {
				t.Errorf("exit %q", exit)
			}
		})
	}
}

// TestNothingIsLostOrComesTwice cuts the way in the middle of whatever passes.
func TestNothingIsLostOrComesTwice(t *testing.T) {
	c := newResumable(t)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	data := make([]byte, 12<<20)
	_, _ = rand.Read(data)
	echo := run(t, c.Conn, "cat")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = echo.Write(data)
		_ = echo.CloseWrite()
	})
	var got bytes.Buffer
	// The reader waits at each of these places for a cut and a new way.
	const cuts = 20
	for range cuts {
		_, _ = io.CopyN(&got, echo, random.Int64N(int64(len(data)/cuts)))
		if random.IntN(2) == 0 {
			c.cut()
		}
		c.resume(t)
	}
	rest, _ := io.ReadAll(echo)
	wg.Wait()
	got.Write(rest)
	if !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes came back, of %d, or others", got.Len(), len(data))
	}
	if exit := echo.exit(t); exit != "status 0" {
		t.Error(exit)
	}
}

// TestTheServerOfAWebSocketWaitsForAClientThatIsAway: servers close one whose pings nobody answers.
func TestTheServerOfAWebSocketWaitsForAClientThatIsAway(t *testing.T) {
	ping, pinged, received := make(chan struct{}), make(chan error, 1), make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = ws.CloseNow() }()
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		var reading sync.WaitGroup
		reading.Go(func() {
			_, text, _ := ws.Read(ctx)
			received <- string(text)
		})
		<-ping
		pinged <- ws.Ping(ctx)
		_ = ws.Write(ctx, websocket.MessageText, []byte("printed meanwhile"))
		reading.Wait()
	}))
	defer server.Close()
	c := newResumable(t)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.Dial(ctx, network, address, nil)
	}
	ws, _, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}}) //nolint:bodyclose // it has none
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	c.cut()
	close(ping)
	if err := <-pinged; err != nil {
		t.Fatal(err)
	}
	c.resume(t)
	if _, text, err := ws.Read(t.Context()); string(text) != "printed meanwhile" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := ws.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("more"), 1<<10)); err != nil {
		t.Error(err)
	}
	if text := <-received; len(text) != 4<<10 {
		t.Errorf("the server received %d bytes", len(text))
	}
}

// TestAPingIsNotAnsweredInTheMiddleOfAFrame: the rest of it comes with the client.
func TestAPingIsNotAnsweredInTheMiddleOfAFrame(t *testing.T) {
	const frame = "\x81\x85\x00\x00\x00\x00hello"
	ping, received := make(chan struct{}), make(chan string, 1)
	address := serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
		<-ping
		_, _ = io.WriteString(c, "\x89\x00")
		got := make([]byte, len(frame))
		_, _ = io.ReadFull(in, got)
		received <- string(got)
	})
	c := newResumable(t)
	ws, err := c.Dial(t.Context(), "tcp", address, []byte("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n"+frame[:9]))
	if err != nil {
		t.Fatal(err)
	}
	c.cut()
	close(ping)
	c.resume(t)
	_, _ = io.WriteString(ws, frame[9:])
	if got := <-received; got != frame {
		t.Errorf("the server received %q", got)
	}
	_ = ws.Close()
}

func TestAProgramThatEndsDuringACutHasItsOutputAndExit(t *testing.T) {
	c := newResumable(t)
	signal := filepath.Join(t.TempDir(), "go")
	p := run(t, c.Conn, "echo $$; until [ -e "+signal+" ]; do sleep 0.02; done; seq 50000; exit 7")
	pid := started(t, p)
	c.cut()
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, pid)
	c.resume(t)
	out, _ := p.all(t)
	if lines := strings.Count(out, "\n"); lines != 50000 || !strings.HasSuffix(out, "\n50000\n") {
		t.Errorf("%d lines, the last %q", lines, out[max(0, len(out)-10):])
	}
	if exit := p.exit(t); exit != "status 7" {
		t.Error(exit)
	}
}

// TestOneThatWritesMuchWaitsAndOthersGoOn: a channel may fill its window while nobody
// takes anything, whatever the others do.
func TestOneThatWritesMuchWaitsAndOthersGoOn(t *testing.T) {
	c := newResumable(t)
	signal := filepath.Join(t.TempDir(), "go")
	const when = "echo $$; until [ -e $0 ]; do sleep 0.02; done; exec head -c %d /dev/zero"
	much := run(t, c.Conn, fmt.Sprintf("sh -c '"+when+"' "+signal, 8000000))
	waits := started(t, much)
	few := run(t, c.Conn, fmt.Sprintf("sh -c '"+when+"' "+signal, 1000000))
	ends := started(t, few)
	c.cut()
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ends)
	c.resume(t)
	for late := time.Now().Add(longest); c.Held().Paused != 1; { // it may still have been writing
		if time.Now().After(late) || !alive(waits) {
			t.Fatalf("held: %+v", c.Held())
		}
		c.cut()
		c.resume(t)
	}
	for p, want := range map[*program]int{much: 8000000, few: 1000000} {
		if out, _ := p.all(t); len(out) != want {
			t.Errorf("%d bytes, want %d", len(out), want)
		}
	}
}

// TestWhatIsSentDuringACutIsKeptUpToALimit: who sends more waits.
func TestWhatIsSentDuringACutIsKeptUpToALimit(t *testing.T) {
	c := newResumable(t)
	echo := run(t, c.Conn, "cat")
	c.cut()
	if _, err := echo.Write(make([]byte, outLimit-dataSize)); err != nil {
		t.Fatal(err)
	}
	if h := c.Held(); h.Full || h.Waiting < outLimit-dataSize || h.Streams != 1 {
		t.Errorf("held: %+v", h)
	}
	written := make(chan error, 1)
	go func() {
		_, err := echo.Write(make([]byte, windowSize))
		_ = echo.CloseWrite()
		written <- err
	}()
	for late := time.Now().Add(longest); !c.Held().Full; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("held: %+v", c.Held())
		}
	}
	if h := c.Held(); h.Waiting > outLimit+2*dataSize {
		t.Errorf("held: %+v", h)
	}
	c.resume(t)
	if out, _ := echo.all(t); len(out) != outLimit-dataSize+windowSize || <-written != nil {
		t.Errorf("%d bytes came back", len(out))
	}
}

func TestARelayThatIsGoneIsSaid(t *testing.T) {
	c := newResumable(t)
	sleeper := run(t, c.Conn, "echo $$; "+idle)
	started(t, sleeper) // before that, it still has the relay's socket
	_ = c.relay.cmd.Process.Kill()
	_ = c.relay.ended()
	<-c.Lost()
	if err := c.Resume(t.Context(), newProcess(t)); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	<-c.Done()
	if _, err := sleeper.Read(make([]byte, 1)); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	if err := c.Resume(t.Context(), newProcess(t)); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	c.relay.ended = func() error { return nil } // it was killed
	c.relay.stderr.Reset()
}

func TestARelayIsResumedOnlyWithItsSecret(t *testing.T) {
	c := newResumable(t)
	shell := run(t, c.Conn, "echo $$; cat")
	started(t, shell)
	secret := c.ticket.Secret
	for _, wrong := range []string{"", "another"} {
		c.ticket.Secret = wrong
		if err := c.Resume(t.Context(), newProcess(t)); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("with secret %q: %v", wrong, err)
		}
	}
	c.ticket.Secret = secret
	c.resume(t)
	_, _ = io.WriteString(shell, "still there\n")
	readUntil(t, shell, "still there")
}

// comeBack writes what the connector of an attempt does, which reads the answer or not.
func (r *resumable) comeBack(t *testing.T, attempt uint64, reads bool) *net.UnixConn {
	t.Helper()
	proof, err := json.Marshal(comeback{Ticket: r.Ticket(), Attempt: attempt})
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + r.Ticket().Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if !reads {
		_ = client.CloseRead()
	}
	_, _ = client.Write(append(proof, '\n'))
	return client
}

func TestConnector(t *testing.T) {
	t.Run("is gone before its answer", func(t *testing.T) {
		c := newResumable(t)
		echo := run(t, c.Conn, "cat")
		c.cut()
		c.attempts++
		_ = c.comeBack(t, c.attempts, false).Close()
		c.resume(t)
		_, _ = io.WriteString(echo, "still here\n")
		readUntil(t, echo, "still here")
	})
	t.Run("that does not see the relay does not say that it is gone", func(t *testing.T) {
		c := newResumable(t)
		echo := run(t, c.Conn, "cat")
		c.cut()
		ticket := c.ticket
		c.ticket = Ticket{Socket: "tunctl-none", Secret: ticket.Secret, Where: "another network"}
		if err := c.Resume(t.Context(), newProcess(t)); !errors.Is(err, errElsewhere) {
			t.Error(err)
		}
		c.ticket = ticket
		c.resume(t)
		_, _ = io.WriteString(echo, "still here\n")
		readUntil(t, echo, "still here")
	})
	t.Run("of an abandoned attempt is refused", func(t *testing.T) {
		c := newResumable(t)
		echo := run(t, c.Conn, "cat")
		c.cut()
		c.attempts++
		late := c.attempts
		c.resume(t)
		lost := c.Lost()
		for _, attempt := range []uint64{late, c.attempts} {
			if _, err := c.comeBack(t, attempt, true).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("attempt %d of %d was answered: %v", attempt, c.attempts, err)
				c.resume(t) // to end the relay
				return
			}
		}
		_, _ = io.WriteString(echo, "the same way\n")
		readUntil(t, echo, "the same way")
		if lost != c.Lost() {
			t.Error("the way of the newest attempt was lost")
		}
	})
}

func TestAnotherUserCannotResume(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	c := newResumable(t)
	shell := run(t, c.Conn, "echo $$; cat")
	started(t, shell)
	// Its own connector would not even ask.
	in, err := send(newShellAs(t, 65534), strings.Replace(connector, "peer(relay) == os.getuid()", "True", 1), "mark", comeback{Mark: "mark", Ticket: c.ticket})
	if err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("the relay answered another user: %q", rest)
	}
	_, _ = io.WriteString(shell, "still there\n")
	readUntil(t, shell, "still there")
}

// answered waits for the answer to a ping.
func (c *Conn) answered(t *testing.T) {
	t.Helper()
	c.ping()
	waiting := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.unanswered > 0
	}
	for late := time.Now().Add(longest); waiting(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("no answer")
		}
	}
}

func newShellAs(t *testing.T, uid int) *process {
	t.Helper()
	return newShell(t, fmt.Sprintf("cd /; exec setpriv --reuid %d --regid %[1]d --clear-groups sh -c '%s'", uid, Command()))
}

func TestARelayWaitsForItsClientOnlySoLong(t *testing.T) {
	c := newSilent(t, Options{Resumable: true}, time.Hour, "echo $$; "+idle+"; true")
	_ = c.way.Close()
	if err := c.way.ended(); err != nil { // outside of the job
		t.Error(err)
	}
	awaitEnd(t, c.pid)
	_ = c.Close()
}

func TestALaterClientEndsARelay(t *testing.T) {
	p := newProcess(t)
	c, err := Start(t.Context(), p, Options{Resumable: true})
	if err != nil {
		t.Fatal(err)
	}
	pid := started(t, run(t, c, "echo $$; "+idle+"; true"))
	_ = p.Close()
	<-c.Lost()
	if err := c.Close(); !errors.Is(err, ErrNotTold) {
		t.Error(err)
	}
	if err := End(t.Context(), newProcess(t), Ticket{Socket: c.Ticket().Socket, Secret: "another"}); err == nil {
		t.Error("another secret ended it")
	}
	if !alive(pid) {
		t.Fatal("the program has ended")
	}
	for range 2 { // the second time it is gone
		if err := End(t.Context(), newProcess(t), c.Ticket()); err != nil {
			t.Error(err)
		}
		if err := p.ended(); err != nil {
			t.Error(err)
		}
	}
	awaitEnd(t, pid)
}

func TestARelayThatNobodyUsesEndsWithItsWay(t *testing.T) {
	p := newProcess(t)
	c, err := Start(t.Context(), p, Options{Resumable: true})
	if err != nil {
		t.Fatal(err)
	}
	if out, _, exit := output(t, c, "echo done"); out != "done\n" || exit != "status 0" {
		t.Error(out, exit)
	}
	c.answered(t) // and that was acknowledged before
	_ = p.Close()
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

func TestAPingAfterTheEndOfTheClientIsNotAnswered(t *testing.T) {
	const agreed, rest = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "\x89\x00\x81\x05hello"
	cut, received := make(chan struct{}), make(chan string, 1)
	address := serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(c, agreed)
		got, _ := io.ReadAll(in)
		received <- string(got)
		<-cut
		_, _ = io.WriteString(c, rest)
	})
	c := newResumable(t)
	ws, err := c.Dial(t.Context(), "tcp", address, []byte("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	_ = ws.(interface{ CloseWrite() error }).CloseWrite()
	if got := <-received; got != "" {
		t.Errorf("the server received %q", got)
	}
	c.cut()
	close(cut)
	c.resume(t)
	if got, err := io.ReadAll(ws); string(got) != agreed+rest || err != nil {
		t.Errorf("the client has %q, %v", got, err)
	}
	_ = ws.Close()
}

func TestClose(t *testing.T) {
	t.Run("does not wait for the answer of a way that is lost meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newConnection(Options{})
			c.ticket = Ticket{Socket: "a", Secret: "b"}
			here, there := net.Pipe()
			c.mu.Lock()
			c.stream.resumes = true
			c.stream.openLocked(&way{here, bufio.NewReader(here)})
			c.mu.Unlock()
			c.wg.Go(c.read)
			began := time.Now()
			go func() {
				_, _ = there.Read(make([]byte, headerSize)) // it is told to end
				_ = there.Close()
			}()
			if err := c.Close(); !errors.Is(err, ErrNotTold) || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
}
