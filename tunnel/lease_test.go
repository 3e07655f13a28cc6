package tunnel

import (
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// nodeBehind is a bench with "outer" up, and the node "inner" behind it.
func nodeBehind(t *testing.T) (b *bench, node *Host, server *sshtest.Server) {
	t.Helper()
	b, servers := chain(t, nil, nil)
	b.up(t, "outer")
	return b, b.Behind("outer", "inner"), servers["inner"]
}

func TestANodeConnectionEndsAMinuteAfterItsLastUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node, server := nodeBehind(t)
		one := node.Lease(true, "")
		mustConnect(t, node)
		two := node.Lease(true, "")
		one()
		one() // a second end of the same use is none of another's
		time.Sleep(time.Hour)
		if got := node.Status().State; got != api.HostUp {
			t.Errorf("with a user left it is %s", got)
		}
		two()
		time.Sleep(59 * time.Second)
		three := node.Lease(true, "") // the next shell needs no login
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
		server.WantLogins(t, 1)
		b.Host("outer").Down() // which nothing goes through any more
		synctest.Wait()
		if got := b.Host("outer").Status().State; got != api.HostDown {
			t.Errorf("its login node is %s", got)
		}
	})
}

func TestALogoutEndsTheConnectionsToNodesToo(t *testing.T) {
	for _, inUse := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, node, server := nodeBehind(t)
			release := node.Lease(true, "")
			mustConnect(t, node)
			if !inUse {
				release()
			}
			if usedBy := b.Host("outer").Down(); usedBy != nil {
				t.Errorf("in use %v: it is said to be used by %q", inUse, usedBy)
			}
			synctest.Wait()
			if login, node := b.Host("outer").Status(), node.Status(); login.State != api.HostDown || node.State != api.HostDown {
				t.Errorf("in use %v: the login node is %s, the node %s", inUse, login.State, node.State)
			}
			release()
			time.Sleep(time.Hour)
			server.WantLogins(t, 1)
			b.Host("outer").Up()
			mustConnect(t, b.Host("outer"))
			defer node.Lease(true, "")()
			mustConnect(t, node)
		})
	}
}

func TestALeaseGetsNoConnectionThatIsAboutToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, server := nodeBehind(t)
		node.Lease(true, "")()
		for range 20 { // in each the timer and the next lease come together
			release := node.Lease(true, "")
			mustConnect(t, node)
			if _, err := node.Run(t.Context(), "cat", nil); err != nil {
				t.Fatal(err)
			}
			release()
			time.Sleep(node.pool.o.Limits.NodeIdle)
		}
		if logins := server.Logins(); logins == 1 {
			t.Error("it never ended")
		}
	})
}

func TestANodeIsListedAsAHostOnlyForWhoAskedForItByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node, _ := nodeBehind(t)
		defer node.Lease(true, "")()
		mustConnect(t, node)
		if got := b.Hosts(); len(got) != 1 || got[0].Alias != "outer" {
			t.Errorf("the hosts are %+v", got)
		}
		b.Host("outer,inner").Up()
		if got := b.Hosts(); len(got) != 2 || got[1].Alias != "outer,inner" {
			t.Errorf("asked for by name, it is not among %+v", got)
		}
	})
}

func TestANodeIsNeverLoggedInToAgainByItself(t *testing.T) {
	for _, inUse := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, node, server := nodeBehind(t)
			release := node.Lease(true, "")
			mustConnect(t, node)
			if !inUse {
				release()
			}
			server.Drop() // the job has ended
			for range 10 {
				time.Sleep(10 * time.Minute)
				b.NetworkChanged()
			}
			if logins := server.Logins(); logins != 1 || node.Status().State != api.HostDown {
				t.Errorf("in use %v: %d logins, %+v", inUse, logins, node.Status())
			}
			release()
			defer node.Lease(true, "")() // a person's next shell
			mustConnect(t, node)
		})
	}
}

func TestARefusedLoginOnANodeIsNotRepeatedForAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node, server := nodeBehind(t)
		b.memory.SetSilent("outer,inner", true)
		accept := server.Config.PublicKeyCallback
		server.LetNobodyIn()
		for range 10 { // an rsync in a loop
			release := node.Lease(false, "")
			if err := node.Await(t.Context()); codeOf(err) != api.CodeAuth {
				t.Errorf("Await: %v", err)
			}
			release()
			time.Sleep(10 * time.Minute)
		}
		server.WantLogins(t, 1)
		b.Host("outer").Down()
		synctest.Wait()
		if got := b.Host("outer").Status().State; got != api.HostDown {
			t.Errorf("nothing goes through its login node, and that is %s", got)
		}
		server.Config.PublicKeyCallback = accept
		defer node.Lease(true, "")() // a person may try
		mustConnect(t, node)
	})
}

// sharedNode is a node behind a login node of two names, leased by both and connected
// once.
func sharedNode(t *testing.T) (e *editable, nodes [2]*Host, release [2]func()) {
	t.Helper()
	e = newEditable(t, "one", "n1")
	e.servers["one"].Inner = map[string]*sshtest.Server{"n1": e.servers["n1"]}
	e.serve(t)
	for i, name := range []string{"work", "cluster"} {
		e.point(name, sshconfig.Settings{Hostname: "one"})
		login := e.Host(name)
		mustUp(t, login)
		nodes[i] = e.Behind(name, "n1")
		release[i] = nodes[i].Lease(true, "")
		mustConnect(t, nodes[i])
	}
	if logins := e.servers["n1"].Logins(); logins != 1 {
		t.Fatalf("%d logins on the node", logins)
	}
	return e, nodes, release
}

func TestALeaseKeepsAConnectionThatAnotherNameHasEndedItsUseOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, nodes, release := sharedNode(t)
		release[1]()
		time.Sleep(time.Hour)
		synctest.Wait()
		if one, two := nodes[0].Status().State, nodes[1].Status().State; one != api.HostUp || two != api.HostDown {
			t.Errorf("the leased one is %s, the other %s", one, two)
		}
		if _, err := nodes[0].Run(t.Context(), "cat", nil); err != nil {
			t.Error(err)
		}
		release[0]()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := nodes[0].Status().State; got != api.HostDown || e.dials("n1") != 1 {
			t.Errorf("without a lease it is %s, after %d dials", got, e.dials("n1"))
		}
	})
}

func TestANodeLeasedByTwoNamesIsNotLoggedInToAgainByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, nodes, release := sharedNode(t)
		time.Sleep(time.Hour) // a stable connection is made again at once
		e.servers["n1"].Drop()
		for range 10 {
			time.Sleep(10 * time.Minute)
			e.NetworkChanged()
		}
		for _, node := range nodes {
			if got := node.Status().State; got != api.HostDown {
				t.Errorf("%s is %s", node.name, got)
			}
		}
		if got := e.dials("n1"); got != 1 {
			t.Errorf("%d dials", got)
		}
		release[0]()
		release[1]()
		defer nodes[1].Lease(true, "")() // a person's next shell
		mustConnect(t, nodes[1])
	})
}

func TestWhoIsUsedOnlyByLeasedHostsIsNotWantedAfterALoss(t *testing.T) {
	for name, asked := range map[string]bool{"leased": false, "asked for": true} {
		t.Run(name, func(t *testing.T) {
			p := NewPool(Options{Limits: DefaultLimits()})
			owner, user := p.Host("work,n1"), p.Host("cluster,n1")
			defer owner.Lease(true, "")()
			defer user.Lease(true, "")()
			owner.addUser(user, "alice@n1:22", false, "")
			user.demand.asked = asked
			owner.facts.live = &conn{}
			owner.connectionLost(owner.facts.live) // before its user has noticed
			if got := owner.facts.wanted; got != asked {
				t.Errorf("wanted: %v", got)
			}
		})
	}
}
