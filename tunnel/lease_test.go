package tunnel

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// nodeBehind is a bench with "outer" up, and the node "inner" behind it.
func nodeBehind(t *testing.T) (b *bench, node *Host, server *sshServer) {
	t.Helper()
	b, servers := chain(t, nil, nil)
	b.serve(t)
	outer := b.Host("outer")
	outer.Up()
	mustConnect(t, outer)
	return b, b.Beyond("outer", "inner"), servers["inner"]
}

// letNobodyIn is what a node does after the job's end.
func letNobodyIn(s *sshServer) {
	s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, errors.New("you have no active jobs on this node")
	}
}

func TestANodeConnectionEndsAMinuteAfterItsLastUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node, server := nodeBehind(t)
		one := node.Lease(true)
		mustConnect(t, node)
		two := node.Lease(true)
		one()
		one() // a second end of the same use is none of another's
		time.Sleep(time.Hour)
		if got := node.Status().State; got != api.HostUp {
			t.Errorf("with a user left it is %s", got)
		}
		two()
		time.Sleep(59 * time.Second)
		three := node.Lease(true) // the next shell needs no login
		mustConnect(t, node)
		time.Sleep(time.Hour)
		three()
		time.Sleep(59 * time.Second)
		if got := node.Status().State; got != api.HostUp {
			t.Errorf("within a minute of its last use it is %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := node.Status().State; got != api.HostDown {
			t.Errorf("a minute after its last use it is %s", got)
		}
		if _, logins, _ := server.counts(); logins != 1 {
			t.Errorf("%d logins on the node", logins)
		}
		b.Host("outer").Down() // which nothing goes through any more
		synctest.Wait()
		if got := b.Host("outer").Status().State; got != api.HostDown {
			t.Errorf("its login node is %s", got)
		}
	})
}

func TestANodeIsNeverLoggedInToAgainByItself(t *testing.T) {
	for _, inUse := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, node, server := nodeBehind(t)
			release := node.Lease(true)
			mustConnect(t, node)
			if !inUse {
				release()
			}
			server.drop() // the job has ended
			for range 10 {
				time.Sleep(10 * time.Minute)
				b.NetworkChanged()
			}
			if _, logins, _ := server.counts(); logins != 1 || node.Status().State != api.HostDown {
				t.Errorf("in use %v: %d logins, %+v", inUse, logins, node.Status())
			}
			release()
			defer node.Lease(true)() // a person's next shell
			mustConnect(t, node)
		})
	}
}

func TestARefusedLoginOnANodeIsNotRepeatedForAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node, server := nodeBehind(t)
		b.memory.SetSilent("outer,inner", true)
		accept := server.config.PublicKeyCallback
		letNobodyIn(server)
		for range 10 { // an rsync in a loop
			release := node.Lease(false)
			if err := node.Await(t.Context()); codeOf(err) != api.CodeAuth {
				t.Errorf("Await: %v", err)
			}
			release()
			time.Sleep(10 * time.Minute)
		}
		if _, logins, _ := server.counts(); logins != 1 {
			t.Errorf("%d logins", logins)
		}
		b.Host("outer").Down()
		synctest.Wait()
		if got := b.Host("outer").Status().State; got != api.HostDown {
			t.Errorf("nothing goes through its login node, and that is %s", got)
		}
		server.config.PublicKeyCallback = accept
		defer node.Lease(true)() // a person may try
		mustConnect(t, node)
	})
}
