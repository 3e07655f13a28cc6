package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

func echoThrough(t *testing.T, d Dialer) {
	t.Helper()
	c, err := d.Dial(t.Context(), "tcp", "echo:1")
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	go say(c, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestOneSilentHopOntoANodeServesAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, servers := chain(t, nil, nil)
		b.serve(t)
		outer := b.Host("outer")
		outer.Up()
		mustConnect(t, outer)
		node := outer.Node(NodeOptions{Names: []string{"refused", "inner"}}) // by its second name
		defer node.Close()
		for range 3 {
			echoThrough(t, node)
		}
		if _, err := node.Dial(t.Context(), "tcp", "refused:1"); !errors.Is(err, ErrRefused) {
			t.Errorf("a port where nothing listens: %v", err)
		}
		if _, logins, _ := servers["inner"].counts(); logins != 1 || node.Scarce() {
			t.Errorf("%d logins on the node, scarce %v", logins, node.Scarce())
		}
		if asked := b.person.questions(); len(asked) > 0 {
			t.Errorf("a person was asked %v", asked)
		}
		if all := b.Hosts(); len(all) != 1 {
			t.Errorf("the node is listed among the hosts: %v", all)
		}

		time.Sleep(10 * time.Minute) // a loss soon after the login is waited out
		servers["outer"].drop()
		synctest.Wait()
		mustConnect(t, outer)
		echoThrough(t, node)
	})
}

func TestANodeThatLetsNobodyInIsNotKnockedAtAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, servers := chain(t, nil, nil)
		servers["inner"].config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, errors.New("no job of yours here")
		}
		b.serve(t)
		outer := b.Host("outer")
		outer.Up()
		mustConnect(t, outer)
		node := outer.Node(NodeOptions{Names: []string{"inner"}, Job: "7"})
		defer node.Close()
		_, err := node.Dial(t.Context(), "tcp", "echo:1")
		if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "our own SSH login") || !strings.Contains(err.Error(), "srun") {
			t.Fatalf("err = %v", err)
		}
		_, again := node.Dial(t.Context(), "tcp", "echo:1")
		if _, logins, _ := servers["inner"].counts(); logins != 1 || again == nil {
			t.Errorf("%d logins, %v", logins, again)
		}
		time.Sleep(b.o.Limits.RetryMin * 2)
		_, _ = node.Dial(t.Context(), "tcp", "echo:1")
		if _, logins, _ := servers["inner"].counts(); logins != 2 {
			t.Errorf("%d logins after the pause, want 2", logins)
		}
	})
}

func TestConnectionsLeaveSessionsToCommands(t *testing.T) {
	for _, tt := range []struct{ limit, connections int }{{10, 8}, {8, 6}, {3, 1}, {2, 1}, {1, 0}} {
		t.Run(strconv.Itoa(tt.limit), func(t *testing.T) {
			s := newSlots(tt.limit, time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			got := 0
			for ; ; got++ {
				if _, err := s.takeLeaving(ctx, nil, spareSessions); err != nil {
					break
				}
			}
			if got != tt.connections {
				t.Errorf("%d connections, want %d", got, tt.connections)
			}
		})
	}
}

func TestTheRelaysCarryEveryByte(t *testing.T) {
	sent := make([]byte, 300_000)
	_, _ = rand.Read(sent)
	host, port := echoOf(t, len(sent))
	for _, program := range []string{"python3", "bash"} {
		t.Run(program, func(t *testing.T) {
			got, err := runRelay(t, program, host, port, sent)
			if err != nil || !bytes.Equal(got, append([]byte("mark\n"), sent...)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			_, err = runRelay(t, program, host, "1", nil)
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !relayRefused(exit.ExitCode(), "") {
				t.Errorf("nothing listens: %v", err)
			}
		})
	}
}

// echoOf serves so many bytes back and closes.
func echoOf(t *testing.T, size int) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(c, c, int64(size))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	host, port, _ = net.SplitHostPort(l.Addr().String())
	return host, port
}

// runRelay runs the relay where only one program is to be had, in a process group of
// its own as in a step of a job. Its input stays open: bash cannot pass on its end.
func runRelay(t *testing.T, program, host, port string, input []byte) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{program, "cat", "sh", "sleep"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is not here", name)
		}
		if name == "python3" { // which may be a script that finds the real one
			found, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
			if err != nil {
				t.Skipf("python3 does not run: %v", err)
			}
			path = strings.TrimSpace(string(found))
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	line := "exec sh -c " + shellWord(relayScript) + " relay mark " + host + " " + port + " " +
		shellWord("exec("+strconv.Quote(relayPython)+")") + " " + shellWord(relayBash)
	t.Setenv("SHELL", "/bin/sh")
	cmd := shellCommand(ctx, line) // in a process group that ends as a whole
	cmd.Env = []string{"PATH=" + dir}
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = in.Write(input) }()
	if err := cmd.Wait(); err != nil {
		return out.Bytes(), fmt.Errorf("%w: %s", err, said.String())
	}
	return out.Bytes(), nil
}
