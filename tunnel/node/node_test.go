package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/steptest"
	"tunctl/internal/posixsh"
	"tunctl/tunnel"
)

func TestOneSilentHopOntoANodeServesAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		node := outer.node(Options{Names: []string{"refused", "inner"}}) // by its second name
		defer node.Close()
		for range 3 {
			sshtest.EchoThrough(t, node)
		}
		if _, err := node.Dial(t.Context(), "tcp", "refused:1"); !errors.Is(err, api.ErrRefused) {
			t.Errorf("a port where nothing listens: %v", err)
		}
		if logins := servers["inner"].Logins(); logins != 1 || node.Limited() {
			t.Errorf("%d logins on the node, limited %v", logins, node.Limited())
		}
		if all := outer.pool.Hosts(); len(all) != 1 {
			t.Errorf("the node is listed among the hosts: %v", all)
		}

		time.Sleep(10 * time.Minute) // a loss soon after the login is waited out
		servers["outer"].Drop()
		synctest.Wait()
		mustConnect(t, outer)
		sshtest.EchoThrough(t, node)
	})
}

// onHost has the commands on a host that lead onto a node, by ssh -W and by srun, do as
// given, with the line that they are to run. It returns how often each was run.
func onHost(s *sshtest.Server, viaSSH, viaSrun func(ch ssh.Channel, line string) int) (ran func() (ssh, srun int)) {
	counts := map[string]int{}
	run := func(starter string, then func(ssh.Channel, string) int) func(ssh.Channel) int {
		return func(ch ssh.Channel) int {
			s.Set(func(*sshtest.Server) { counts[starter]++ })
			var line []byte
			for b := make([]byte, 1); ; line = append(line, b[0]) {
				if _, err := ch.Read(b); err != nil || b[0] == '\n' {
					break
				}
			}
			return then(ch, string(line))
		}
	}
	s.Set(func(s *sshtest.Server) {
		s.Commands = map[string]func(ssh.Channel) int{posixsh.Line: run(posixsh.Line, viaSSH), posixsh.LoginLine: run(posixsh.LoginLine, viaSrun)}
	})
	return func() (ssh, srun int) {
		s.Set(func(*sshtest.Server) { ssh, srun = counts[posixsh.Line], counts[posixsh.LoginLine] })
		return ssh, srun
	}
}

// relayEcho is a job step with a relay, whose connections send everything back.
func relayEcho(ch ssh.Channel, _ string) int {
	steptest.Serve(ch, ch, func(_ steptest.Request, data io.ReadWriter) uint32 {
		_, _ = io.Copy(data, data)
		return 0
	})
	return 0
}

// hangs does nothing until it is ended.
func hangs(ch ssh.Channel, _ string) int {
	_, _ = io.Copy(io.Discard, ch)
	return 255
}

// says fails with words.
func says(words string) func(ssh.Channel, string) int {
	return func(ch ssh.Channel, _ string) int {
		_, _ = io.WriteString(ch.Stderr(), words)
		return 255
	}
}

func TestANodeThatDropsSSHLeavesTimeForTheOtherWays(t *testing.T) {
	for _, names := range [][]string{{"dropped1"}, {"dropped1", "dropped2", "dropped3", "dropped4"}} {
		for _, limit := range []time.Duration{30 * time.Second, 45 * time.Second} {
			t.Run(fmt.Sprintf("%d names, %v", len(names), limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					outer, servers := behind(t, tunnel.DefaultLimits())
					ran := onHost(servers["outer"], hangs, relayEcho)
					node := outer.node(Options{Names: names, Job: "7"})
					defer node.Close()
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					began := time.Now()
					c, err := node.Dial(ctx, "tcp", "127.0.0.1:8888")
					if err != nil {
						t.Fatalf("after %v: %v", time.Since(began), err)
					}
					defer closing(c)
					viaSSH, srun := ran()
					if took := time.Since(began); took > 15*time.Second || viaSSH == 0 || srun != 1 {
						t.Errorf("srun had its turn after %v; %d runs of ssh, %d of srun", took, viaSSH, srun)
					}
					next := outer.node(Options{Names: []string{"dropped9"}, Job: "8"})
					defer next.Close()
					began = time.Now()
					sshtest.EchoThrough(t, next)
					if took := time.Since(began); took > time.Second {
						t.Errorf("the next node took %v, though the way is known", took)
					}
				})
			})
		}
	}
}

func TestANodeIsReachedByWhicheverNameAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		node := outer.node(Options{Names: []string{"dropped1", "dropped2", "inner"}})
		defer node.Close()
		began := time.Now()
		sshtest.EchoThrough(t, node)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		servers["inner"].WantLogins(t, 1)
	})
}

func TestAWayThatHangsIsNotTheFirstTheNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		servers["inner"].Set(func(s *sshtest.Server) { s.Silent = true }) // its sshd hangs
		greeted := func(ch ssh.Channel, line string) int {
			_, _ = io.WriteString(ch.Stderr(), sshGreeted+"2.0, remote software version OpenSSH_9.2\n")
			return hangs(ch, line)
		}
		onHost(servers["outer"], greeted, relayEcho)
		node := outer.node(Options{Names: []string{"inner"}, Job: "7"})
		defer node.Close()
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			c, err := node.Dial(ctx, "tcp", "127.0.0.1:8888")
			cancel()
			if err == nil {
				_ = c.Close()
				return
			}
			if try == 3 {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestALoginThatANodeRefusedIsTriedAgainOnceAndThenHourly(t *testing.T) {
	const denied = "debug1: SSH2_MSG_SERVICE_ACCEPT received\r\nalice@inner: Permission denied (publickey).\r\n"
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		servers["inner"].LetNobodyIn()
		ran := onHost(servers["outer"], says(denied), says("srun: error: Unable to create step"))
		node := outer.node(Options{Names: []string{"inner", "inner.cluster"}, Job: "7"})
		defer node.Close()
		for range 50 {
			_, err := node.Dial(t.Context(), "tcp", "echo:1")
			if err == nil || errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "a direct SSH login") || !strings.Contains(err.Error(), "srun") {
				t.Fatalf("err = %v", err)
			}
			time.Sleep(time.Minute)
		}
		logins := servers["inner"].Logins()
		if viaSSH, srun := ran(); logins != 2 || viaSSH != 2 || srun < 3 || srun > 15 {
			t.Errorf("%d logins of ours, %d by ssh on the host, %d job steps", logins, viaSSH, srun)
		}
	})
}

func TestManyConnectionsToANodeWhoseJobEndedAreOneRefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		onHost(servers["outer"], says("ssh: not found"), relayEcho)
		node := outer.node(Options{Names: []string{"inner"}})
		defer node.Close()
		sshtest.EchoThrough(t, node)
		servers["inner"].LetNobodyIn()
		servers["inner"].Drop()
		var wg sync.WaitGroup
		for range 6 { // a page's
			wg.Go(func() {
				if _, err := node.Dial(t.Context(), "tcp", "echo:1"); err == nil {
					t.Error("connected")
				}
			})
		}
		wg.Wait()
		servers["inner"].WantLogins(t, 2)
	})
}

func TestANodeWithoutPythonSaysWhatWouldHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		servers["inner"].LetNobodyIn()
		ran := onHost(servers["outer"], says("ssh: not found"), says("python3 is not installed on this node\n"))
		node := outer.node(Options{Names: []string{"inner"}, Job: "7"})
		defer node.Close()
		for range 3 {
			_, dialled := node.Dial(t.Context(), "tcp", "echo:1")
			_, _, opened := node.OpenChannel(t.Context(), "session", nil)
			for what, err := range map[string]error{"a page": dialled, "a shell": opened} {
				if err == nil || !strings.Contains(err.Error(), "the node has no python3") || !strings.Contains(err.Error(), "an sshd there that accepts your key") {
					t.Errorf("%s: %v", what, err)
				}
			}
			time.Sleep(time.Hour)
		}
		if _, srun := ran(); srun > 3 {
			t.Errorf("%d steps were tried", srun)
		}
	})
}

func TestAHostThatPrintsWithoutEndFillsNoMemory(t *testing.T) {
	for name, junk := range map[string]string{"one line": "x", "many lines": "x\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer, servers := behind(t, tunnel.DefaultLimits())
				junk, taken := []byte(strings.Repeat(junk, 16<<10)), 0
				flood := func(ch ssh.Channel, _ string) int {
					for ; taken < 100<<20; taken += len(junk) {
						if _, err := ch.Write(junk); err != nil {
							return 1
						}
					}
					return 1
				}
				onHost(servers["outer"], flood, says("no step"))
				node := outer.node(Options{Names: []string{"refused"}})
				defer node.Close()
				if _, err := node.Dial(t.Context(), "tcp", "127.0.0.1:8888"); err == nil || !strings.Contains(err.Error(), "prints without end") {
					t.Errorf("dialled: %v", err)
				}
				synctest.Wait()
				if taken > 8<<20 { // the bound, and the windows of SSH
					t.Errorf("%d MB were taken", taken>>20)
				}
			})
		})
	}
}

func TestAPBSNodeWithoutPythonHasTheShellsOfItsSSHD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		onHost(servers["inner"], nil, says("python3 is not installed on this node\n"))
		servers["inner"].Set(func(s *sshtest.Server) {
			s.Commands["whoami"] = func(ch ssh.Channel) int {
				say(ch, "me")
				return 0
			}
		})
		node := outer.node(Options{Names: []string{"inner"}, QsubJob: "7"})
		defer node.Close()
		ch, requests, err := node.OpenChannel(t.Context(), "session", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(ch)
		go ssh.DiscardRequests(requests)
		if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"whoami"})); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if out, err := io.ReadAll(ch); string(out) != "me" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		if err := node.Ends(); !errors.Is(err, errNoPython) {
			t.Errorf("it ends with the connection: %v", err)
		}
	})
}
