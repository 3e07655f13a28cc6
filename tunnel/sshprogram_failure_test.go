package tunnel

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/tunnel/failure"
)

// What OpenSSH 9.2 prints at the level DEBUG1, shortened.
const (
	sshConnects = "OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026\r\ndebug1: Connecting to login [192.0.2.7] port 22.\r\n"
	sshLogsIn   = sshConnects + "debug1: Connection established.\r\ndebug1: SSH2_MSG_SERVICE_ACCEPT received\r\n"
	sshOffers   = sshLogsIn + "debug1: Authentications that can continue: publickey\r\ndebug1: Offering public key: id ED25519\r\n"
)

func TestSSHProgramFailure(t *testing.T) {
	t.Run("one that we cut off is no refusal", func(t *testing.T) {
		for name, tt := range map[string]struct {
			output string
			class  failure.Class
			login  bool // the server may have counted one
		}{
			"before the login": {sshConnects, failure.Passing, false},
			"during the login": {sshOffers, failure.Passing, true},
			"after a refusal":  {sshOffers + "alice@login: Permission denied (publickey,password).\r\n", failure.Refused, true},
			"a silent one":     {"", failure.Passing, true},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b := newBenchOf(t, nil, nil)
				at := attemptOf(b.Host("login"), func(a *attempt) { a.loginAt = time.Now(); a.ask.timeout = newTimeout(time.Second, func() {}) })
				time.Sleep(2 * time.Second)
				said := newStderrBuffer()
				_, _ = io.WriteString(said, tt.output)
				err := at.sshFailed(t.Context(), said, errors.New("cut off"))
				if got := at.classOf(err); got != tt.class || at.loginAt.IsZero() == tt.login || !strings.Contains(err.Error(), "within") {
					t.Errorf("class %d, want %d: %v", got, tt.class, err)
				}
			}))
		}
	})
	t.Run("one that waits for a user has a user's time", func(t *testing.T) {
		for _, waits := range []string{
			"debug1: Next authentication method: keyboard-interactive\r\n",
			"debug1: Server accepts key: id ED25519 SHA256:abc agent\r\n",
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newBenchOf(t, nil, nil)
				host, person := b.o.Limits.HandshakeTimeout, b.o.Limits.PromptTimeout
				at := attemptOf(b.Host("login"), func(a *attempt) { a.ask.timeout = newTimeout(host, func() {}) })
				ssh := sshProgress{newStderrBuffer(), &at.ask}
				say(ssh, sshOffers+waits)
				time.Sleep(person - time.Second)
				say(ssh, "debug1: Authentications that can continue: publickey\r\n")
				time.Sleep(host - time.Second)
				if expired, _ := at.ask.timeout.expired(); expired {
					t.Errorf("%q: it was cut off", waits)
				}
				time.Sleep(2 * time.Second)
				if expired, ofPerson := at.ask.timeout.expired(); !expired || ofPerson {
					t.Errorf("%q: the host has no limit after it", waits)
				}
			})
		}
	})
	t.Run("one that a user does not help in time is no refusal", func(t *testing.T) {
		hungUp := sshOffers + "debug1: Next authentication method: keyboard-interactive\r\nConnection closed by 192.0.2.7 port 22\r\n"
		for name, tt := range map[string]struct {
			output string
			ends   time.Duration
			class  failure.Class
		}{
			"nobody is there":       {hungUp, time.Minute, failure.Passing},
			"nobody confirms":       {sshOffers + "debug1: Next authentication method: keyboard-interactive\r\n", 3 * time.Minute, failure.NeedsUser},
			"the server hangs up":   {hungUp, time.Minute, failure.NeedsUser},
			"it hangs up at once":   {hungUp, time.Second, failure.Refused},
			"it refuses at the end": {hungUp + "alice@login: Permission denied (publickey).\r\n", time.Minute, failure.Refused},
			"it says why": {
				strings.Replace(hungUp, "Connection closed by 192.0.2.7 port 22", "Received disconnect from 192.0.2.7 port 22:2: no", 1),
				time.Minute, failure.Refused,
			},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b := newBenchOf(t, nil, nil)
				at := attemptOf(b.Host("login"), func(a *attempt) {
					a.ask.attended = name != "nobody is there"
					a.loginAt = time.Now()
					a.ask.timeout = newTimeout(time.Second, func() {})
				})
				said := newStderrBuffer()
				say(sshProgress{said, &at.ask}, tt.output)
				time.Sleep(tt.ends)
				if got := at.classOf(at.sshFailed(t.Context(), said, errors.New("ssh ended"))); got != tt.class {
					t.Errorf("class %d, want %d", got, tt.class)
				}
			}))
		}
	})
}
