package tunnel

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/testprogram"
	"tunctl/tunnel/sshconfig"
)

// editable is a bench whose hosts lead where their names are pointed, as by the user
// who edits the ssh_config.
type editable struct {
	*bench
	servers map[string]*sshtest.Server

	mu    sync.Mutex
	leads map[string]sshconfig.Settings // of a destination: Hostname and ProxyJump
}

func newEditable(t *testing.T, servers ...string) *editable {
	t.Helper()
	path, public := sshtest.NewKeyFile(t)
	e := &editable{servers: map[string]*sshtest.Server{}, leads: map[string]sshconfig.Settings{}}
	for _, name := range servers {
		e.servers[name] = sshtest.NewServer(t, sshtest.AcceptKey(public))
	}
	e.bench = newBenchOf(t, e.servers, withKeys(path))
	unedited := e.resolve
	e.resolve = func(ctx context.Context, destination string) (sshconfig.Settings, error) {
		s, err := unedited(ctx, destination)
		s.User = "alice"
		e.mu.Lock()
		defer e.mu.Unlock()
		if to, ok := e.leads[destination]; ok {
			s.Hostname, s.ProxyJump = to.Hostname, to.ProxyJump
		}
		return s, err
	}
	return e
}

func (e *editable) point(name string, to sshconfig.Settings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads[name] = to
}

// ran are the commands that a server was given, without the greeting's own.
func (e *editable) ran(server string) []string {
	var ran []string
	e.servers[server].Set(func(s *sshtest.Server) { ran = slices.Clone(s.Execs) })
	return slices.DeleteFunc(ran, func(c string) bool { return c == "hostname" })
}

func (e *editable) dials(server string) int { return e.servers[server].Dials() }

func TestSharing(t *testing.T) {
	t.Run("a name that was pointed elsewhere is not shared by its old account", simulated(func(t *testing.T) {
		e := newEditable(t, "one", "two")
		e.point("work", sshconfig.Settings{Hostname: "one"})
		e.point("cluster", sshconfig.Settings{Hostname: "one"})
		e.serve(t)
		work, cluster := e.Host("work"), e.Host("cluster")
		mustUp(t, work)
		work.Down()
		synctest.Wait()
		e.point("work", sshconfig.Settings{Hostname: "two"})
		mustUp(t, cluster)
		if _, err := cluster.Run(t.Context(), "cat", nil); err != nil {
			t.Fatal(err)
		}
		if one, two := e.ran("one"), e.ran("two"); len(one) != 1 || len(two) != 0 || e.dials("two") != 0 {
			t.Errorf("one ran %q, two ran %q after %d dials", one, two, e.dials("two"))
		}
	}))
	t.Run("a user stays with its account when the owner is pointed elsewhere", func(t *testing.T) {
		for name, ownerDown := range map[string]bool{"and is wanted": false, "and is not wanted": true} {
			t.Run(name, simulated(func(t *testing.T) {
				e := newEditable(t, "one", "two")
				e.point("work", sshconfig.Settings{Hostname: "one"})
				e.point("cluster", sshconfig.Settings{Hostname: "one"})
				e.memory.Remember("work", func(k *api.Known) { k.Silent = true })
				e.serve(t)
				work, cluster := e.Host("work"), e.Host("cluster")
				mustUp(t, work)
				mustUp(t, cluster)
				if ownerDown {
					work.Down()
				}
				synctest.Wait()
				time.Sleep(time.Hour) // a stable connection is made again at once
				e.point("work", sshconfig.Settings{Hostname: "two"})
				e.memory.Remember("work", func(k *api.Known) { k.Accounts = append(k.Accounts, "alice@two:22") }) // else the user would be needed
				e.servers["one"].Drop()
				synctest.Wait()
				mustConnect(t, cluster)
				if _, err := cluster.Run(t.Context(), "cat", nil); err != nil {
					t.Fatal(err)
				}
				if one, two := e.ran("one"), e.ran("two"); len(one) != 1 || len(two) != 0 {
					t.Errorf("one ran %q, two ran %q", one, two)
				}
				if ownerDown {
					if e.dials("two") != 0 {
						t.Error("a name that nobody wanted was dialled for another's sake")
					}
					return
				}
				mustConnect(t, work)
				if got := work.Account(); got != "alice@two:22" {
					t.Errorf("the name that was pointed elsewhere is %q", got)
				}
			}))
		}
	})
	t.Run("one address behind two gates is not one connection", simulated(func(t *testing.T) {
		e := twoGates(t)
		e.point("gate", sshconfig.Settings{Hostname: "gate1"})
		e.point("a", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"gate"}})
		e.point("b", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"other"}})
		e.point("other", sshconfig.Settings{Hostname: "gate2"})
		e.point("c", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"same"}})
		e.point("same", sshconfig.Settings{Hostname: "gate1"})
		e.serve(t)
		for _, name := range []string{"a", "b", "c"} {
			h := e.Host(name)
			mustUp(t, h)
		}
		for server, want := range map[string]int{"gate1": 1, "gate2": 1, "inner1": 1, "inner2": 1} {
			e.servers[server].WantLogins(t, want)
		}
	}))
	t.Run("a logout is not overtaken by the login that follows", simulated(func(t *testing.T) {
		e := newEditable(t, "one", "two")
		e.point("work", sshconfig.Settings{Hostname: "one"})
		h := e.up(t, "work")
		e.point("work", sshconfig.Settings{Hostname: "two"})
		h.Down()
		h.Up()
		synctest.Wait()
		mustConnect(t, h)
		if got := h.Account(); got != "alice@two:22" {
			t.Errorf("it is %s", got)
		}
	}))
	t.Run("a logout is over once logged in again", simulated(func(t *testing.T) {
		e := newEditable(t, "one")
		e.point("work", sshconfig.Settings{Hostname: "one"})
		e.point("cluster", sshconfig.Settings{Hostname: "one"})
		e.serve(t)
		work, cluster := e.Host("work"), e.Host("cluster")
		for _, h := range []*Host{work, cluster} {
			mustUp(t, h)
		}
		cluster.Down()
		cluster.Up()
		synctest.Wait()
		mustConnect(t, cluster)
		since := cluster.Status().Since
		time.Sleep(time.Minute)
		e.NetworkChanged()
		synctest.Wait()
		if st := cluster.Status(); st.State != api.HostUp || st.Since != since {
			t.Errorf("%+v, and was up since %v", st, since)
		}
	}))
	t.Run("a command for one cluster is not run behind another gate", simulated(func(t *testing.T) {
		e := twoGates(t)
		e.point("work", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"gate1"}})
		work := e.up(t, "work")
		account := work.Account() // what a session remembers of its job's host
		time.Sleep(time.Hour)
		e.point("work", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"gate2"}})
		gate := e.Host("gate2")
		mustUp(t, gate)
		time.Sleep(time.Hour)
		e.servers["inner1"].Drop()
		e.servers["gate1"].Drop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := work.Status(); st.State != api.HostNeedsLogin || e.dials("inner2") != 0 {
			t.Errorf("nobody asked for a login behind the other gate: %+v", st)
		}
		mustUp(t, work)                                 // now somebody does
		for _, account := range []string{account, ""} { // no account is none of this host
			if _, err := work.RunAs(t.Context(), account, "scancel 4711", nil); !errors.Is(err, ErrOtherAccount) {
				t.Errorf("scancel as %q: %v", account, err)
			}
		}
		if ran := e.ran("inner2"); len(ran) > 0 {
			t.Errorf("the other cluster ran %q", ran)
		}
	}))
	t.Run("a saved password is not sent behind another gate", simulated(func(t *testing.T) {
		e := twoGates(t)
		got := map[string][]string{}
		for _, name := range []string{"inner1", "inner2"} {
			e.servers[name].Config.PublicKeyCallback = nil
			e.servers[name].Config.PasswordCallback = func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
				got[name] = append(got[name], string(p))
				return nil, nil
			}
		}
		e.o.Passwords = &box{kept: map[string]string{}}
		e.person.answers = []string{"of one"}
		e.person.keep = api.KeepKeyring
		e.point("one", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"gate1"}})
		e.point("two", sshconfig.Settings{Hostname: "inner", ProxyJump: []string{"gate2"}})
		one := e.up(t, "one")
		one.Down()
		synctest.Wait()
		mustUp(t, one) // by the saved password
		e.Host("two").Up()
		synctest.Wait()
		if want := []string{"of one", "of one"}; !slices.Equal(got["inner1"], want) || len(got["inner2"]) > 0 {
			t.Errorf("cluster one was given %q, cluster two %q", got["inner1"], got["inner2"])
		}
	}))
	t.Run("only of a connection whose key the host accepts", func(t *testing.T) {
		dir := t.TempDir()
		for name, tt := range map[string]struct {
			change func(t *testing.T, s *sshconfig.Settings, shown ssh.PublicKey)
			logins int
			want   string // in the error; "": it connects
		}{
			"known": {func(t *testing.T, s *sshconfig.Settings, shown ssh.PublicKey) {
				s.StrictHostKeyChecking, s.UserKnownHosts = "yes", []string{filepath.Join(dir, "known")}
				write(t, s.UserKnownHosts[0], "one "+sshtest.Authorized(shown)+"\n")
			}, 1, ""},
			"another is pinned": {func(t *testing.T, s *sshconfig.Settings, _ ssh.PublicKey) {
				s.StrictHostKeyChecking, s.UserKnownHosts = "yes", []string{filepath.Join(dir, "pinned")}
				write(t, s.UserKnownHosts[0], "one "+sshtest.Authorized(sshtest.NewSigner(t).PublicKey())+"\n")
			}, 1, "has changed"},
			"revoked": {func(t *testing.T, s *sshconfig.Settings, shown ssh.PublicKey) {
				s.StrictHostKeyChecking, s.UserKnownHosts, s.RevokedHostKeys = "no", nil, filepath.Join(dir, "revoked")
				write(t, s.RevokedHostKeys, sshtest.Authorized(shown)+"\n")
			}, 1, "is revoked"},
			"unknown, and somebody can be asked": {func(_ *testing.T, s *sshconfig.Settings, _ ssh.PublicKey) {
				s.StrictHostKeyChecking, s.UserKnownHosts = "ask", []string{filepath.Join(dir, "none")}
			}, 2, ""},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				e := newEditable(t, "one")
				e.point("loose", sshconfig.Settings{Hostname: "one"})
				e.point("strict", sshconfig.Settings{Hostname: "one"})
				e.person.answers = []string{"yes"}
				read := e.resolve
				e.resolve = func(ctx context.Context, destination string) (sshconfig.Settings, error) {
					s, err := read(ctx, destination)
					if destination == "loose" {
						s.StrictHostKeyChecking, s.UserKnownHosts = "no", []string{os.DevNull}
					} else {
						tt.change(t, &s, e.servers["one"].Key.PublicKey())
					}
					return s, err
				}
				e.serve(t)
				loose, strict := e.Host("loose"), e.Host("strict")
				mustUp(t, loose)
				strict.Up()
				err := strict.Await(t.Context())
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("strict: %v", err)
				}
				e.servers["one"].WantLogins(t, tt.logins)
			}))
		}
	})
	t.Run("a host whose namesake refuses the key logs in itself", func(t *testing.T) {
		for name, checking := range map[string]string{"it is unknown, and nobody can be asked": "ask", "it is unknown, and must be known": "yes"} {
			t.Run(name, simulated(func(t *testing.T) {
				e := newEditable(t, "one")
				e.point("distrusting", sshconfig.Settings{Hostname: "one"})
				e.point("trusting", sshconfig.Settings{Hostname: "one"})
				read := e.resolve
				e.resolve = func(ctx context.Context, destination string) (sshconfig.Settings, error) {
					s, err := read(ctx, destination)
					if destination == "distrusting" {
						s.StrictHostKeyChecking, s.UserKnownHosts = checking, []string{os.DevNull}
					}
					return s, err
				}
				first := e.begin(t, "distrusting")
				if err := first.Await(t.Context()); err == nil {
					t.Error("an unknown key was accepted")
				}
				mustUp(t, e.Host("trusting"))
				e.servers["one"].WantLogins(t, 1)
			}))
		}
	})
}

// known is the known_hosts file of the bench.
func (e *editable) known(t *testing.T) string {
	t.Helper()
	s, err := e.Settings(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	return s.UserKnownHosts[0]
}

func TestReload(t *testing.T) {
	t.Run("leaves a live connection and says that its settings changed", simulated(func(t *testing.T) {
		e := newEditable(t, "one", "two")
		e.point("work", sshconfig.Settings{Hostname: "one"})
		h := e.up(t, "work")
		e.Reload()
		synctest.Wait()
		if w := h.Status().Outdated; w != "" {
			t.Errorf("nothing changed, and it says %q", w)
		}
		e.point("work", sshconfig.Settings{Hostname: "two"})
		e.Reload()
		synctest.Wait()
		st := h.Status()
		if st.State != api.HostUp || h.Account() != "alice@one:22" || !strings.Contains(st.Outdated, "tunctl logout work") {
			t.Errorf("after the reload: %q %+v", h.Account(), st)
		}
		e.point("work", sshconfig.Settings{Hostname: "one"})
		e.Reload()
		synctest.Wait()
		if w := h.Status().Outdated; w != "" {
			t.Errorf("after the edit was undone: %q", w)
		}
		e.point("work", sshconfig.Settings{Hostname: "two"})
		e.Reload()
		synctest.Wait()
		h.Down()
		synctest.Wait()
		if w := h.Status().Outdated; w != "" {
			t.Errorf("not connected, and it says %q", w)
		}
		mustUp(t, h)
		if st := h.Status(); h.Account() != "alice@two:22" || st.Outdated != "" {
			t.Errorf("after the next login: %q %+v", h.Account(), st)
		}
	}))
	t.Run("during a login is seen after it", simulated(func(t *testing.T) {
		e := newEditable(t, "one", "two")
		e.point("work", sshconfig.Settings{Hostname: "one"})
		dialled, direct := make(chan struct{}), e.network.Dial
		e.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
			<-dialled
			return direct(ctx, d, network, address)
		}
		h := e.begin(t, "work")
		synctest.Wait()
		e.point("work", sshconfig.Settings{Hostname: "two"})
		e.Reload()
		synctest.Wait()
		close(dialled)
		mustConnect(t, h)
		synctest.Wait()
		if st := h.Status(); h.Account() != "alice@one:22" || st.Outdated == "" {
			t.Errorf("%s; %+v", h.Account(), st)
		}
	}))
	t.Run("tries a waiting host at once when its address is corrected", simulated(func(t *testing.T) {
		e := newEditable(t, "one")
		e.point("work", sshconfig.Settings{Hostname: "onne"})
		h := e.want(t, "work")
		time.Sleep(3 * time.Hour) // the waits between tries are long by now
		synctest.Wait()
		if st := h.Status(); st.State != api.HostWaiting {
			t.Fatalf("%+v", st)
		}
		corrected := time.Now()
		e.point("work", sshconfig.Settings{Hostname: "one"})
		e.Reload()
		mustConnect(t, h)
		if took := time.Since(corrected); took > time.Second {
			t.Errorf("it was tried after %v", took)
		}
	}))
	t.Run("nobody is logged in by itself to another account", simulated(func(t *testing.T) {
		e := newEditable(t, "one", "two")
		e.point("work", sshconfig.Settings{Hostname: "one"})
		h := e.up(t, "work")
		time.Sleep(time.Hour)
		e.point("work", sshconfig.Settings{Hostname: "two"})
		e.servers["one"].Drop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := h.Status(); st.State != api.HostNeedsLogin || e.dials("two") != 0 {
			t.Errorf("%d dials; %+v", e.dials("two"), st)
		}
		mustUp(t, h)
		for _, back := range []string{"one", "two"} { // both are known by now
			time.Sleep(time.Hour)
			e.point("work", sshconfig.Settings{Hostname: back})
			for _, s := range e.servers {
				s.Drop()
			}
			synctest.Wait()
			mustConnect(t, h)
			if got := h.Account(); got != "alice@"+back+":22" {
				t.Errorf("it is %s, not %s", got, back)
			}
		}
	}))
	t.Run("reads another ssh_config", func(t *testing.T) {
		one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
		write(t, one, "Host work\n  HostName one.test\n")
		write(t, two, "Host work\n  HostName two.test\n")
		var file string
		p := newPool(Options{Resolver: func() sshconfig.Resolver { return sshconfig.Resolver{SSHConfig: file} }, Limits: PracticeLimits()})
		for _, c := range []struct{ file, want string }{{one, "one.test"}, {two, "two.test"}} {
			file = c.file
			s, err := p.Settings(t.Context(), "work")
			if err != nil || s.Hostname != c.want || s.SSHConfig != c.file {
				t.Errorf("by %s: %q from %q, %v", c.file, s.Hostname, s.SSHConfig, err)
			}
		}
	})
	t.Run("settings are read in the environment of the newest client", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("its ssh is a shell script")
		}
		bare, own := t.TempDir(), t.TempDir()
		config := filepath.Join(own, "config")
		write(t, config, "Host work\n  HostName read.from.file\n  LocalForward 8080 file:80\n")
		if err := testprogram.Write(filepath.Join(own, "ssh"), []byte("#!/bin/sh\necho hostname said.by.ssh\necho localforward 8080 [ssh]:80\n")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bare) // an agent that was started at login
		env := api.Env(nil)
		p := newPool(Options{Resolver: func() sshconfig.Resolver { return sshconfig.Resolver{SSHConfig: config} }, Limits: PracticeLimits(), Envs: func() []api.Env { return []api.Env{env} }})
		for _, want := range []struct{ source, hostname string }{{"ssh_config", "read.from.file"}, {"ssh -G", "said.by.ssh"}} {
			s, err := p.Settings(t.Context(), "work")
			if err != nil || s.Source != want.source || s.Hostname != want.hostname || len(s.LocalForwards) != 1 {
				t.Errorf("%+v %v, want %+v", s, err, want)
			}
			env = api.Env{"PATH": own + string(os.PathListSeparator) + "/bin"}
		}
	})
}

// twoGates has the address "inner" behind two gates, where it is two machines.
func twoGates(t *testing.T) *editable {
	t.Helper()
	e := newEditable(t, "gate1", "gate2", "inner1", "inner2")
	for gate, inner := range map[string]string{"gate1": "inner1", "gate2": "inner2"} {
		e.servers[gate].Inner = map[string]*sshtest.Server{"inner": e.servers[inner]}
		if err := addLine(e.known(t), "inner "+sshtest.Authorized(e.servers[inner].Key.PublicKey())); err != nil {
			t.Fatal(err)
		}
	}
	return e
}
