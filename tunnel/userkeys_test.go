package tunnel

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// refusingAgent lists its keys and signs with none of them, as one that is locked, or
// whose user said no.
type refusingAgent struct{ agent.Agent }

func (refusingAgent) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	return nil, errors.New("agent refused operation")
}

func TestUserKeys(t *testing.T) {
	t.Run("one that cannot sign does not stop the others", func(t *testing.T) {
		for _, attended := range []bool{true, false} {
			ring, inAgent := sshtest.NewKeyring(t)
			file, inFile := sshtest.NewKeyFile(t)
			s := sshtest.NewServer(t, sshtest.AcceptKey(inAgent, inFile))
			socket := sshtest.ServeAgent(t, refusingAgent{ring})
			b := newBench(t, s, func(s *sshconfig.Settings) {
				s.IdentityAgent, s.IdentityFiles = socket, []string{file}
			})
			if err := connectOnce(t, b, attended); err != nil {
				t.Errorf("attended %v: %v", attended, err)
			}
			s.WantLogins(t, 1)
		}
	})
	t.Run("that are refused are offered once", simulated(func(t *testing.T) {
		var files []string
		for range 3 {
			file, _ := sshtest.NewKeyFile(t)
			files = append(files, file)
		}
		last, public := sshtest.NewKeyFile(t)
		files = append(files, last)
		var offered []string
		s := sshtest.NewServer(t, sshtest.AcceptKey(public), sshtest.EachKey(func(k ssh.PublicKey) { offered = append(offered, ssh.FingerprintSHA256(k)) }))
		if _, _, err := logIn(t, s, withKeys(files...)); err != nil {
			t.Fatal(err)
		}
		slices.Sort(offered)
		if n := len(slices.Compact(slices.Clone(offered))); n != 4 || len(offered) > 5 { // the last is shown, and then signs
			t.Errorf("offered %q", offered)
		}
	}))
	t.Run("where none signs it is said why", func(t *testing.T) {
		for _, attended := range []bool{true, false} {
			ring, public := sshtest.NewKeyring(t)
			socket := sshtest.ServeAgent(t, refusingAgent{ring})
			b := newBench(t, sshtest.NewServer(t, sshtest.AcceptKey(public)), func(s *sshconfig.Settings) { s.IdentityAgent = socket })
			err := connectOnce(t, b, attended)
			want := map[bool]api.Code{true: api.CodeAuth, false: api.CodeNeedsPerson}[attended]
			if codeOf(err) != want || !strings.Contains(err.Error(), "could not sign") || !strings.Contains(err.Error(), ssh.FingerprintSHA256(public)) {
				t.Errorf("attended %v: %v", attended, err)
			}
		}
	})
	t.Run("a passphrase that nobody can type does not stop others", func(t *testing.T) {
		for _, attended := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				locked, lockedPublic := lockedKey(t, "locked")
				file, public := sshtest.NewKeyFile(t)
				connect := func(accepts ...ssh.PublicKey) error {
					return connectOnce(t, newBench(t, sshtest.NewServer(t, sshtest.AcceptKey(accepts...)), withKeys(locked, file)), attended)
				}
				if err := connect(lockedPublic, public); err != nil {
					t.Errorf("attended %v: %v", attended, err)
				}
				if err := connect(lockedPublic); codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "passphrase") {
					t.Errorf("attended %v, and no other key: %v", attended, err)
				}
			})
		}
	})
	t.Run("follow the settings", func(t *testing.T) {
		rsaFile, rsaPublic := sshtest.RSAKeyFile(t)
		edFile, edPublic := sshtest.NewKeyFile(t)
		for name, test := range map[string]struct {
			set     func(*sshconfig.Settings)
			accepts ssh.PublicKey
			server  []string // the signatures that it accepts
			good    bool
			warns   string
		}{
			"nothing set":            {func(*sshconfig.Settings) {}, rsaPublic, nil, true, ""},
			"RSA is long enough":     {func(s *sshconfig.Settings) { s.RequiredRSASize = 2048 }, rsaPublic, nil, true, ""},
			"RSA is too short":       {func(s *sshconfig.Settings) { s.RequiredRSASize = 3072 }, rsaPublic, nil, false, "2048 bits"},
			"others have no size":    {func(s *sshconfig.Settings) { s.RequiredRSASize = 3072 }, edPublic, nil, true, "2048 bits"},
			"the type is listed":     {func(s *sshconfig.Settings) { s.PubkeyAcceptedAlgorithms = []string{"ssh-ed25519"} }, edPublic, nil, true, "PubkeyAcceptedAlgorithms"},
			"the type is not listed": {func(s *sshconfig.Settings) { s.PubkeyAcceptedAlgorithms = []string{"ssh-ed25519"} }, rsaPublic, nil, false, "PubkeyAcceptedAlgorithms"},
			"a wildcard":             {func(s *sshconfig.Settings) { s.PubkeyAcceptedAlgorithms = []string{"rsa-*"} }, rsaPublic, nil, true, "PubkeyAcceptedAlgorithms"},
			"the signature is listed": {
				func(s *sshconfig.Settings) { s.PubkeyAcceptedAlgorithms = []string{"ssh-ed25519", "rsa-sha2-256"} }, rsaPublic, []string{"ssh-ed25519", "rsa-sha2-256"}, true, "",
			},
			"only another signature is": {
				func(s *sshconfig.Settings) { s.PubkeyAcceptedAlgorithms = []string{"ssh-ed25519", "rsa-sha2-512"} }, rsaPublic, []string{"ssh-ed25519", "rsa-sha2-256"}, false, "",
			},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				s := sshtest.NewServer(t, sshtest.AcceptKey(test.accepts))
				s.Config.PublicKeyAuthAlgorithms = test.server
				_, h, err := logIn(t, s, func(s *sshconfig.Settings) {
					s.IdentityFiles = []string{rsaFile, edFile}
					s.PasswordAuthentication, s.KbdInteractive = false, false
					test.set(s)
				})
				if test.good != (err == nil) {
					t.Errorf("Await: %v", err)
				}
				if warnings := strings.Join(h.Status().Warnings, "\n"); (test.warns == "") != (warnings == "") || !strings.Contains(warnings, test.warns) {
					t.Errorf("warned of %q", warnings)
				}
			}))
		}
	})
	t.Run("the newest agent that answers is used", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("needs unix sockets")
		}
		ring, public := sshtest.NewKeyring(t)
		good, other := sshtest.ServeAgent(t, ring), sshtest.ServeAgent(t, agent.NewKeyring())
		sock := func(path string) api.Env { return api.Env{"SSH_AUTH_SOCK": path} }
		for name, test := range map[string]struct {
			newest  api.Env
			earlier []api.Env
			own     string
			set     string // IdentityAgent
			good    bool
		}{
			"the newest":                        {newest: sock(good), own: other, good: true},
			"the newest, without keys":          {newest: sock(other), earlier: []api.Env{sock(good)}},
			"an earlier one":                    {newest: sock(deadSocket(t)), earlier: []api.Env{sock(deadSocket(t)), sock(good), sock(other)}, good: true},
			"the newest has none":               {newest: api.Env{"PATH": "/bin"}, earlier: []api.Env{sock(good)}, own: other, good: true},
			"our own":                           {newest: sock(deadSocket(t)), own: good, good: true},
			"our own, without a client":         {own: good, good: true},
			"none":                              {newest: sock(deadSocket(t)), own: deadSocket(t)},
			"the settings name a dead one":      {newest: sock(good), own: good, set: deadSocket(t)},
			"the settings name a variable":      {newest: sock(deadSocket(t)), own: good, set: "$SSH_AUTH_SOCK", good: true},
			"the settings name the environment": {newest: sock(deadSocket(t)), own: good, set: "SSH_AUTH_SOCK", good: true},
			"the settings want none":            {newest: sock(good), own: good, set: "none"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Setenv("SSH_AUTH_SOCK", test.own)
				b := newBench(t, sshtest.NewServer(t, sshtest.AcceptKey(public)), func(s *sshconfig.Settings) { s.IdentityAgent = test.set })
				b.o.Envs = func() []api.Env { return append([]api.Env{test.newest}, test.earlier...) }
				if err := connectOnce(t, b, false); test.good != (err == nil) {
					t.Errorf("Await: %v", err)
				}
			})
		}
	})
	t.Run("programs that we run get an agent that answers", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("needs unix sockets")
		}
		good := sshtest.ServeAgent(t, agent.NewKeyring())
		t.Setenv("SSH_AUTH_SOCK", "")
		newest := api.Env{"SSH_AUTH_SOCK": deadSocket(t), "PATH": "/newest"}
		p := newPool(Options{
			Limits: DefaultLimits(),
			Envs:   func() []api.Env { return []api.Env{newest, {"SSH_AUTH_SOCK": good, "PATH": "/earlier"}} },
		})
		if env := p.env(t.Context()); env["SSH_AUTH_SOCK"] != good || env["PATH"] != "/newest" {
			t.Errorf("%v", env)
		}
		if newest["SSH_AUTH_SOCK"] == good {
			t.Error("the client's own environment was changed")
		}
		p = newPool(Options{Limits: DefaultLimits()})
		t.Setenv("SSH_AUTH_SOCK", good)
		if env := p.env(t.Context()); env["SSH_AUTH_SOCK"] != good {
			t.Errorf("without a client: %v", env)
		}
	})
	t.Run("an expired certificate is named with how to get a new one", func(t *testing.T) {
		for name, x := range map[string]struct {
			set  func(*sshconfig.Settings)
			want string
		}{
			"no site":           {func(*sshconfig.Settings) {}, "get a new one as your site describes; a command for that can be before_login"},
			"the site says how": {func(s *sshconfig.Settings) { s.RenewCertificate = "step ssh login MAIL" }, "`step ssh login MAIL` gets a new one; as before_login it does so at each login"},
			"before_login":      {func(s *sshconfig.Settings) { s.BeforeLogin = "true" }, "before_login has not renewed it: run its command in a terminal"},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				path, public := sshtest.NewKeyFile(t)
				sshtest.WriteCertificate(t, path+"-cert.pub", sshtest.NewSigner(t), public, -time.Second)
				s := sshtest.NewServer(t, sshtest.AcceptKey())
				_, _, err := logIn(t, s, func(s *sshconfig.Settings) {
					s.IdentityFiles = []string{path}
					x.set(s)
				})
				e, ok := errors.AsType[*api.Error](err)
				if !ok || !strings.Contains(e.Hint, path+"-cert.pub expired at ") || !strings.Contains(e.Hint, x.want) {
					t.Errorf("%v; %+v", err, e)
				}
			}))
		}
	})
}

// connectOnce connects, with the user there or by itself.
func connectOnce(t *testing.T, b *bench, attended bool) error {
	t.Helper()
	if !attended {
		return b.want(t, "login").Await(t.Context())
	}
	return b.begin(t, "login").Await(t.Context())
}

// deadSocket is one that nobody listens on any more.
func deadSocket(t *testing.T) string { return filepath.Join(t.TempDir(), "gone") }
