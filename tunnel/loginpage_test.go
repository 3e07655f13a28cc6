package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// deviceLink is as a centre with a device flow sends it.
const deviceLink = "https://iam.example.org/realms/hpc/device?user_code=ABCD-EFGH"

func TestLoginPage(t *testing.T) {
	t.Run("links are found whole in a server's text", func(t *testing.T) {
		long := "https://iam.example.org/" + strings.Repeat("x", 3000)
		for text, want := range map[string][]string{
			"Authenticate at\n-----\n" + deviceLink + "\n-----\nand press ENTER.": {deviceLink},
			"Go to <https://a.example/x>, or (http://b.example/y).":               {"https://a.example/x", "http://b.example/y"},
			"\x1b]8;;https://evil.example\x1b\\https://a.example\x1b]8;;\x1b\\":   {"https://a.example"}, // a terminal's hidden link
			"https://a.exam\u202eple/x":                                           {"https://a.example/x"},
			"first " + long:                                                       {long},
			strings.Repeat("terms and conditions ", 200) + deviceLink:             {deviceLink},
			"https://" + strings.Repeat("x", maxLink):                             nil,
			"no link: ftp://a.example, xhttps://b.example":                        nil,
		} {
			if got := linksIn(text); !slices.Equal(got, want) {
				t.Errorf("%.60q: %q, want %q", text, got, want)
			}
		}
	})
	t.Run("only an HTTPS page of a named host may be opened", func(t *testing.T) {
		hosts := []string{"iam.example.org"}
		for _, link := range []string{deviceLink, "https://iam.example.org", "https://iam.example.org?x", "https://iam.example.org#x"} {
			if got := loginPage([]string{"https://other.example/terms", link}, hosts); got != link {
				t.Errorf("%q may not be opened", link)
			}
		}
		for _, link := range []string{
			"http://iam.example.org/device",
			"https://iam.example.org.evil.example/device",
			"https://iam.example.org:8443/device",
			"https://iam.example.org:443/device",
			"https://iam.example.org:/device",
			"https://iam.example.org./device",
			"https://iam.example.org@evil.example/",
			"https://iam.example.org:x@evil.example/",
			"https://me@iam.example.org/device",
			"https://xn--iam-8qa.example.org/",
			"https:///iam.example.org/", "https://https://iam.example.org/",
			"https://iam.example.org/\t", "https://iam.example.org/a\x00b", "https://iam.example.org/\x7f", "https://iam.example.org\n/",
			"https://evil.example/@iam.example.org",
			"https://evil.example\\@iam.example.org/",
			"https://iam.example.org\\.evil.example/",
			"https://iam.example.org/\\evil.example",
			"https://a.iam.example.org/", "https://example.org/",
			"https://iam.ex\u0430mple.org/", // a Cyrillic letter
			"https://iam.example.org/\u202e",
			"https://iam.example.org%2f.evil.example/",
			"file:///etc/passwd", "javascript:alert(1)", "https:iam.example.org", "",
		} {
			if got := loginPage([]string{link}, hosts); got != "" {
				t.Errorf("%q may be opened", got)
			}
		}
		if got := loginPage([]string{deviceLink}, nil); got != "" {
			t.Errorf("without a site, %q may be opened", got)
		}
	})
	t.Run("a device login shows it and sends Enter", func(t *testing.T) {
		for name, x := range map[string]struct {
			pages []string
			open  string
		}{
			"the site names the page": {[]string{"iam.example.org"}, deviceLink},
			"no site":                 {nil, ""},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b := newBench(t, sshtest.NewServer(t, device), func(s *sshconfig.Settings) { s.LoginPages = x.pages })
				c := b.askClients()
				h := b.begin(t, "login")
				p := <-c.asked
				if !slices.Equal(p.Links, []string{deviceLink}) || p.LoginPage != x.open || p.Kind != api.PromptQuestion {
					t.Errorf("asked %+v", p)
				}
				if st := h.Status(); !slices.Equal(st.Links, []string{deviceLink}) {
					t.Errorf("the status has %q", st.Links)
				}
				time.Sleep(4 * time.Minute) // with the browser
				c.answer <- api.Answer{}
				mustConnect(t, h)
				if st := h.Status(); len(st.Links) > 0 || b.memory.Known("login").Silent {
					t.Errorf("after the login: %q, silent %v", st.Links, b.memory.Known("login").Silent)
				}
			}))
		}
	})
	t.Run("a jump host may open that of the site behind it", simulated(func(t *testing.T) {
		b, _ := chain(t, map[string][]string{"inner": {"outer"}}, device)
		resolve := b.resolve
		b.resolve = func(ctx context.Context, destination string) (sshconfig.Settings, error) {
			s, err := resolve(ctx, destination)
			if s.Alias == "inner" {
				s.LoginPages = []string{"iam.example.org"}
			}
			return s, err
		}
		c := b.askClients()
		b.serve(t)
		b.Host("inner").Up()
		if p := <-c.asked; p.Host != "outer" || p.LoginPage != deviceLink {
			t.Errorf("asked %+v", p)
		}
		c.answer <- api.Answer{}
		mustConnect(t, b.Host("inner"))
	}))
	t.Run("a server that waits for it asks for it", simulated(func(t *testing.T) {
		done := make(chan struct{})
		b := newBench(t, sshtest.NewServer(t, waiting("Log in at "+deviceLink, done)), func(s *sshconfig.Settings) { s.LoginPages = []string{"iam.example.org"} })
		c := b.askClients()
		h := b.begin(t, "login")
		if p := <-c.asked; p.Kind != api.PromptPage || p.LoginPage != deviceLink || !strings.Contains(p.Instruction, "Log in at") {
			t.Errorf("asked %+v", p)
		}
		time.Sleep(4 * time.Minute) // longer than a handshake may take
		close(done)                 // the page was used; nobody pressed Enter
		mustConnect(t, h)
		synctest.Wait()
		if st := h.Status(); st.Asking != "" || b.memory.Known("login").Silent {
			t.Errorf("after the login: %+v, silent %v", st, b.memory.Known("login").Silent)
		}
	}))
	t.Run("whoever declines it stops the login", simulated(func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		b := newBench(t, sshtest.NewServer(t, waiting("Log in at "+deviceLink, done)), nil)
		c := b.askClients()
		h := b.begin(t, "login")
		<-c.asked
		c.answer <- api.Answer{Cancelled: true}
		if err := h.Await(t.Context()); codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "you chose not to log in with the browser") {
			t.Errorf("Await: %v", err)
		}
	}))
	t.Run("a link in a banner comes with the next question", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptPassword("right"), sshtest.Banner("By logging in you accept https://www.example.org/terms\n"))
		b, _, err := logIn(t, s, nil, "wrong", "right")
		if err != nil {
			t.Fatal(err)
		}
		asked := b.person.questions()
		if len(asked) != 2 || asked[0].Kind != api.PromptPassword || !strings.Contains(asked[0].Instruction, "https://www.example.org/terms") || asked[1].Instruction != "" {
			t.Errorf("asked %+v", asked)
		}
		if len(asked[0].Links) > 0 { // terms of use need not be opened
			t.Errorf("the password comes with %q", asked[0].Links)
		}
	}))
	t.Run("without a user it is needs-login", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		done := make(chan struct{})
		defer close(done)
		s := sshtest.NewServer(t, sshtest.Banner("Confirm this login at "+deviceLink), sshtest.AcceptKey(public), sshtest.EachKey(func(ssh.PublicKey) { <-done }))
		b := newBench(t, s, func(s *sshconfig.Settings) {
			s.IdentityFiles, s.LoginPages = []string{path}, []string{"iam.example.org"}
		})
		h := b.want(t, "login")
		err := h.Await(t.Context())
		if codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "the login asks to log in with the browser") {
			t.Errorf("Await: %v", err)
		}
	}))
	t.Run("a device code is for the user alone", func(t *testing.T) {
		const code = "WDJB-MJHT"
		refuse := func(instruction string, questions ...string) []sshtest.Login {
			return []sshtest.Login{sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
				_, _ = ask("", instruction, questions, make([]bool, len(questions)))
				time.Sleep(time.Second)
				return errors.New("not used")
			})}
		}
		for name, logins := range map[string][]sshtest.Login{
			"a question": refuse("", "Enter "+code+" at example.org/device and press ENTER: "),
			"a message":  refuse("Enter " + code + " at example.org/device"),
			"a banner":   {sshtest.Banner("Enter " + code + " at https://example.org/device\n"), sshtest.AcceptPassword("right")},
		} {
			for who, prompter := range map[string]Prompter{"nobody": &person{}, "someone who declines": decliner{}} {
				t.Run(name+" to "+who, simulated(func(t *testing.T) {
					b := newBench(t, sshtest.NewServer(t, logins...), nil)
					var log bytes.Buffer
					b.o.Prompter, b.o.Log = prompter, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					h := b.begin(t, "login")
					synctest.Wait()
					st := api.Status{Hosts: []api.Host{h.Status()}}
					if shown := st.Hosts[0].Cause; name == "a message" && !strings.Contains(shown, code) {
						t.Errorf("the person is shown %q", shown)
					}
					if public := st.WithoutLogins().Hosts[0]; strings.Contains(public.Cause, code) || len(public.Links) > 0 {
						t.Errorf("others are shown %+v", public)
					}
					if err := h.Await(t.Context()); err == nil || strings.Contains(err.Error(), code) {
						t.Errorf("Await: %v", err)
					}
					b.end()
					if strings.Contains(log.String(), code) || log.Len() == 0 {
						t.Errorf("the log has it:\n%s", log.String())
					}
				}))
			}
		}
	})
	t.Run("a server cannot pile up links", func(t *testing.T) {
		flood := sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
			for n := range 50 {
				if _, err := ask("", fmt.Sprintf("https://iam.example.org/%d", n), nil, nil); err != nil {
					return err
				}
			}
			_, err := ask("", "", []string{"Code: "}, []bool{false})
			return err
		})
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sshtest.NewServer(t, flood), func(s *sshconfig.Settings) { s.LoginPages = []string{"iam.example.org"} })
			c := b.askClients()
			h := b.begin(t, "login")
			p := <-c.asked
			if len(p.Links) != maxLinks || p.LoginPage != "https://iam.example.org/0" {
				t.Errorf("%d links, %q", len(p.Links), p.LoginPage)
			}
			c.answer <- api.Answer{}
			mustConnect(t, h)
		})
	})
	t.Run("a link that a login printed is in no message", func(t *testing.T) {
		said := "Authenticate at " + deviceLink + "\r\n"
		b := newBenchOf(t, nil, nil)
		at := attemptOf(b.Host("login"), func(a *attempt) {
			a.ask.attended = true
			a.loginAt = time.Now()
			a.ask.timeout = newTimeout(time.Hour, func() {})
		})
		defer at.ask.timeout.stop()
		output := newStderrBuffer()
		say(output, said+"alice@login: Permission denied (keyboard-interactive).\r\n")
		for name, err := range map[string]error{
			"ssh":            at.sshFailed(t.Context(), output, errors.New("ssh ended")),
			"a ProxyCommand": notSSH("login:22", &proxyError{said: api.NewRemoteText(said)}),
		} {
			if !strings.Contains(err.Error(), "Authenticate at") || strings.Contains(err.Error(), "ABCD-EFGH") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// device is a server that asks for Enter after a page was opened.
var device = sshtest.AskForEnter("Authenticate at\n" + deviceLink + "\nand press ENTER. ")

// waiting is a server that sends a text without a question, and waits for done.
func waiting(text string, done <-chan struct{}) sshtest.Login {
	return sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
		_, err := ask("", text, nil, nil)
		<-done
		return err
	})
}

// decliner cancels every question.
type decliner struct{}

func (decliner) Prompt(context.Context, api.Prompt, func()) (api.Answer, error) {
	return api.Answer{Cancelled: true}, nil
}
