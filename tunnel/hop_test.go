package tunnel

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

func TestNode(t *testing.T) {
	t.Run("streams share one connection, which ends a minute after the last", simulated(func(t *testing.T) {
		b, server := nodeBehind(t)
		one, releaseOne := b.node(t, "inner")
		_, releaseTwo := b.node(t, "inner")
		releaseOne()
		releaseOne() // a second end of the same stream is none of another's
		time.Sleep(time.Hour)
		releaseTwo()
		time.Sleep(59 * time.Second)
		_, releaseThree := b.node(t, "inner")
		time.Sleep(time.Hour)
		releaseThree()
		time.Sleep(59 * time.Second)
		if !one.IsLive() {
			t.Error("it ended within a minute of its last use")
		}
		time.Sleep(2 * time.Second)
		if one.IsLive() {
			t.Error("it is there a minute after its last use")
		}
		server.WantLogins(t, 1)
	}))
	t.Run("a stream gets no connection that is about to end", simulated(func(t *testing.T) {
		b, server := nodeBehind(t)
		for range 20 { // in each the timer and the next stream come together
			n, release := b.node(t, "inner")
			ch, _, err := n.OpenChannel(t.Context(), "session", nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = ch.Close()
			release()
			time.Sleep(b.o.Limits.NodeIdle)
		}
		if server.Logins() == 1 {
			t.Error("it never ended")
		}
	}))
	t.Run("a logout of the host ends it, and nothing makes it again", simulated(func(t *testing.T) {
		b, server := nodeBehind(t)
		n, release := b.node(t, "inner")
		defer release()
		if usedBy := b.Host("outer").Down(); usedBy != nil {
			t.Errorf("it is said to be used by %q", usedBy)
		}
		synctest.Wait()
		if got := b.Host("outer").Status().State; got != api.HostDown || n.IsLive() {
			t.Errorf("the host is %s; the node is connected: %v", got, n.IsLive())
		}
		mustUp(t, b.Host("outer"))
		time.Sleep(time.Hour)
		server.WantLogins(t, 1)
	}))
	t.Run("after a refusal a user may try at once, and a program may not", simulated(func(t *testing.T) {
		b, server := nodeBehind(t)
		accept := server.Config.PublicKeyCallback
		server.LetNobodyIn()
		n, release := b.Host("outer").Node("inner")
		defer release()
		for range 10 { // an rsync in a loop
			err := n.Await(t.Context(), false)
			e, _ := errors.AsType[*api.Error](err)
			if e == nil || e.Code != api.CodeAuth || e.Hint != "nodes let you in only while your job runs there; `tunctl jobs outer` lists your jobs" {
				t.Errorf("%v; %+v", err, e)
			}
			time.Sleep(5 * time.Second)
		}
		server.WantLogins(t, 1)
		server.Config.PublicKeyCallback = accept
		if err := n.Await(t.Context(), true); err != nil {
			t.Error(err)
		}
	}))
	t.Run("the user is the host's, unless another is named", simulated(func(t *testing.T) {
		b, server := nodeBehind(t)
		var users []string
		accept := server.Config.PublicKeyCallback
		server.Config.PublicKeyCallback = func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			users = append(users, m.User())
			return accept(m, k)
		}
		for _, name := range []string{"inner", "bob@inner"} {
			_, release := b.node(t, name)
			release()
		}
		if users[0] != b.Host("outer").Status().User || users[len(users)-1] != "bob" {
			t.Errorf("%q", users)
		}
	}))
}

// nodeBehind is a bench with "outer" up, and the node "inner" behind it.
func nodeBehind(t *testing.T) (*bench, *sshtest.Server) {
	t.Helper()
	b, servers := chain(t, nil, nil)
	b.up(t, "outer")
	return b, servers["inner"]
}

// node is a connected node behind "outer", for one stream.
func (b *bench) node(t *testing.T, name string) (n *Hop, release func()) {
	t.Helper()
	n, release = b.Host("outer").Node(name)
	if err := n.Await(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return n, release
}
