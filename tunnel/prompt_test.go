package tunnel

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// retries are what each question said of the answer before it.
func (p *person) retries() []string {
	var said []string
	for _, q := range p.questions() {
		said = append(said, q.Retry)
	}
	return said
}

func TestPrompt(t *testing.T) {
	t.Run("a wrong answer is called wrong with the tries that are left", func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		locked, lockedPublic := lockedKey(t, "locked")
		for name, tt := range map[string]struct {
			server  sshtest.Login
			key     string
			answers []string
			want    []string
		}{
			"password": {
				sshtest.AcceptPassword("right"), "",
				[]string{"wrong", "wrong", "right"},
				[]string{"", "that was not right; 2 more tries before tunctl stops", "that was not right; 1 more try before tunctl stops"},
			},
			"a right one": {sshtest.AcceptPassword("right"), "", []string{"right"}, []string{""}},
			"a menu and a code after a key": {
				twoStep(public, "123456"), path,
				[]string{"1", "000000", "1", "123456"},
				[]string{"", "", "one of these answers was not right; 2 more tries before tunctl stops", ""},
			},
			"passphrase": {
				sshtest.AcceptKey(lockedPublic), locked,
				[]string{"wrong", "open sesame"},
				[]string{"", "that was not right; 2 more tries before tunctl stops"},
			},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b, _, err := logIn(t, sshtest.NewServer(t, tt.server), func(s *sshconfig.Settings) {
					if tt.key != "" {
						s.IdentityFiles = []string{tt.key}
					}
				}, tt.answers...)
				if err != nil {
					t.Fatal(err)
				}
				if got := b.person.retries(); strings.Join(got, "|") != strings.Join(tt.want, "|") {
					t.Errorf("the questions said %q, want %q", got, tt.want)
				}
			}))
		}
	})
	t.Run("a saved password that is wrong is not called theirs", simulated(func(t *testing.T) {
		b, h, _ := boxed(t, sshtest.NewServer(t, sshtest.AcceptPassword("right")), "old", "right")
		mustUp(t, h)
		if got := b.person.retries(); len(got) != 1 || got[0] != "the saved password was not accepted; 2 more tries before tunctl stops" {
			t.Errorf("asked with %q", got)
		}
	}))
	t.Run("a refused login is explained by the method that was tried", func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		for name, tt := range map[string]struct {
			server    sshtest.Login
			key       string
			answers   []string
			says, not string
		}{
			"password": {sshtest.AcceptPassword("right"), "", []string{"a", "b", "c"}, "the password", "public key"},
			"a key is not registered, and the password is wrong": {
				sshtest.All(sshtest.AcceptKey(), sshtest.AcceptPassword("right")),
				path,
				[]string{"a", "b", "c"},
				"the password", "public key",
			},
			"code": {twoStep(public, "123456"), path, []string{"1", "0", "1", "0", "1", "0"}, "a one-time code works once", "public key"},
			"key":  {sshtest.AcceptKey(), path, nil, "your public key is registered", "password"},
			"a node that says that there is no job": {
				sshtest.All(sshtest.AcceptKey(), sshtest.Banner("Access denied: user alice has no active jobs on this node.\n")),
				path, nil, "nodes let you in only while your job runs", "public key",
			},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				_, h, err := logIn(t, sshtest.NewServer(t, tt.server), func(s *sshconfig.Settings) {
					if tt.key != "" {
						s.IdentityFiles = []string{tt.key}
					}
				}, tt.answers...)
				if hint := h.Status().Hint; codeOf(err) != api.CodeAuth || !strings.Contains(hint, tt.says) || strings.Contains(hint, tt.not) {
					t.Errorf("%v; hint: %s", err, hint)
				}
			}))
		}
	})
	t.Run("goes to the client that caused the login", simulated(func(t *testing.T) {
		b, c := withClients(t)
		inner, outer := b.Host("inner"), b.Host("outer")
		inner.UpFor("one")
		if p := <-c.asked; p.Client != "one" || p.Host != "outer" {
			t.Errorf("asked %+v", p)
		}
		synctest.Wait()
		for _, h := range []*Host{inner, outer} { // who goes through the host waits for the same answer
			if st := h.Status(); st.Asking != api.PromptPassword || st.State != api.HostConnecting || st.Cause != "waiting for the login in another window" {
				t.Errorf("while a person is asked: %+v", st)
			}
		}
		outer.UpFor("two") // the login under way is not theirs
		c.answer <- api.Answer{Text: "wrong"}
		if p := <-c.asked; p.Client != "one" {
			t.Errorf("asked again through %q", p.Client)
		}
		c.answer <- api.Answer{Text: "right"}
		mustConnect(t, outer)
		mustConnect(t, inner)
		for _, h := range []*Host{inner, outer} {
			if st := h.Status(); st.Asking != "" || st.Cause != "" {
				t.Errorf("after the answer: %+v", st)
			}
		}
	}))
	t.Run("is taken over by who asked meanwhile", func(t *testing.T) {
		for name, giveUp := range map[string]func(*clients){
			"Ctrl-C":          func(c *clients) { c.answer <- api.Answer{Cancelled: true} },
			"a closed window": func(c *clients) { c.left <- struct{}{} },
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b, c := withClients(t)
				h := b.Host("outer")
				h.UpFor("one")
				<-c.asked
				h.UpFor("two")
				giveUp(c)
				if p := <-c.asked; p.Client != "two" {
					t.Errorf("asked through %q", p.Client)
				}
				c.answer <- api.Answer{Text: "right"}
				mustConnect(t, h)
			}))
		}
	})
	t.Run("is asked again of who came after it was given up", simulated(func(t *testing.T) {
		h := newBench(t, sshtest.NewServer(t), nil).Host("login") // nothing serves it: the test tries
		h.UpFor("one")
		try := h.beginTry(func() {})
		h.UpFor("two")
		h.finishTry(try, nil, needsUser(h.name, "no password was entered", nil))
		if st := h.Status(); st.State == api.HostNeedsLogin {
			t.Errorf("the second one is told what the first one did: %+v", st)
		}
	}))
	t.Run("that is not answered says which", simulated(func(t *testing.T) {
		b, c := withClients(t)
		h := b.Host("outer")
		h.UpFor("one")
		<-c.asked
		c.answer <- api.Answer{Cancelled: true}
		if err := h.Await(t.Context()); codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "no password was entered") {
			t.Errorf("Await: %v", err)
		}
	}))
	t.Run("a server that does not wait for the answer has not refused it", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
		b := newBench(t, s, nil)
		c := b.askClients()
		b.serve(t)
		h := b.Host("login")
		h.UpFor("one")
		<-c.asked
		s.Drop() // sshd does so after LoginGraceTime
		err := h.Await(t.Context())
		if codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "closed the connection before the login was complete") {
			t.Errorf("Await: %v", err)
		}
		if st := h.Status(); st.Asking != "" || strings.Contains(st.Hint, "password") {
			t.Errorf("%+v", st)
		}
	}))
}

// clients are people at several clients: each question waits until the test answers it.
type clients struct {
	asked  chan api.Prompt
	answer chan api.Answer
	left   chan struct{}
}

func (c *clients) Prompt(ctx context.Context, p api.Prompt, asked func()) (api.Answer, error) {
	asked()
	c.asked <- p
	select {
	case a := <-c.answer:
		return a, nil
	case <-c.left:
		return api.Answer{}, failure.ErrNobody
	case <-ctx.Done():
		return api.Answer{}, ctx.Err()
	}
}

// withClients is a bench with password hosts, "login" and "inner" behind it, and clients.
func withClients(t *testing.T) (*bench, *clients) {
	t.Helper()
	b, servers := chain(t, map[string][]string{"inner": {"outer"}}, sshtest.AcceptPassword("right"))
	sshtest.AcceptPassword("right")(servers["inner"].Config)
	c := b.askClients()
	b.serve(t)
	return b, c
}
