package tunnel

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What OpenSSH 9.2 prints at the level DEBUG1, shortened.
const (
	sshConnects  = "OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026\r\ndebug1: Connecting to login [192.0.2.7] port 22.\r\n"
	sshLogsIn    = sshConnects + "debug1: Connection established.\r\ndebug1: SSH2_MSG_SERVICE_ACCEPT received\r\n"
	sshOffers    = sshLogsIn + "debug1: Authentications that can continue: publickey\r\ndebug1: Offering public key: id ED25519\r\n"
	sshByAnother = "debug1: Setting implicit ProxyCommand from ProxyJump: ssh -W '[%h]:%p' hop\r\ndebug1: Executing proxy command: exec ssh -W '[login]:22' hop\r\n"
	sshLosesHop  = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n"
)

func TestWhatSSHPrintsTellsWhetherALoginWasRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		output string
		class  failureClass
		login  bool
	}{
		"a key is refused":                {sshOffers + "alice@login: Permission denied (publickey).\r\n", classRefused, true},
		"by an old ssh":                   {sshOffers + "Permission denied (publickey).\r\n", classRefused, true},
		"too many keys":                   {sshOffers + "Received disconnect from 192.0.2.7 port 22:2: Too many authentication failures\r\nDisconnected from 192.0.2.7 port 22\r\n", classRefused, true},
		"PAM hangs up":                    {sshOffers + "Connection closed by 192.0.2.7 port 22\r\n", classRefused, true},
		"hung up before a method is told": {sshLogsIn + "Connection reset by 192.0.2.7 port 22\r\n", classRefused, true},
		"lost after the login":            {sshOffers + "Authenticated to login ([192.0.2.7]:22) using \"publickey\".\r\nConnection closed by 192.0.2.7 port 22\r\n", classPassing, true},
		"a changed host key":              {sshConnects + "Host key verification failed.\r\n", classPermanent, false},
		"no common algorithm":             {sshConnects + "Unable to negotiate with 192.0.2.7 port 22: no matching host key type found. Their offer: ssh-dss\r\n", classPermanent, false},
		"a wrong option":                  {"/home/alice/.ssh/config: line 3: Bad configuration option: foo\r\n/home/alice/.ssh/config: terminating, 1 bad configuration options\r\n", classPermanent, false},
		"a penalty":                       {sshConnects + "debug1: kex_exchange_identification: banner line 0: Not allowed at this time\r\nkex_exchange_identification: Connection closed by remote host\r\nConnection closed by 192.0.2.7 port 22\r\n", classBanned, false},
		"a closed port":                   {sshConnects + "debug1: connect to address 192.0.2.7 port 22: Connection refused\r\nssh: connect to host login port 22: Connection refused\r\n", classClosedPort, false},
		"no answer":                       {sshConnects + "ssh: connect to host login port 22: Connection timed out\r\n", classPassing, false},
		"no name":                         {"ssh: Could not resolve hostname login: Name or service not known\r\n", classPassing, false},
		"too many connections":            {sshConnects + "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 192.0.2.7 port 22\r\n", classPassing, false},
		"a hop without a name":            {sshByAnother + "ssh: Could not resolve hostname hop: Name or service not known\r\n" + sshLosesHop, classPassing, false},
		"a hop that refuses":              {sshByAnother + "alice@hop: Permission denied (publickey).\r\n" + sshLosesHop, classRefused, true},
		"a hop that hangs up":             {sshByAnother + "Connection closed by 192.0.2.9 port 22\r\n" + sshLosesHop, classRefused, true},
		"a hop with too many logins":      {sshByAnother + "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 192.0.2.9 port 22\r\n" + sshLosesHop, classPassing, false},
		"a ProxyCommand without a VPN":    {"debug1: Executing proxy command: exec vpn-nc login 22\r\nvpn-nc: the VPN is down\r\n" + sshLosesHop, classPassing, false},
		"a banner that speaks of refusal": {sshConnects + "Permission denied to all but members.\r\nConnection closed by 192.0.2.7 port 22\r\n", classPassing, false},
		"another ssh, or a silent one":    {"", classUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readSSHOutput(tt.output); got.class != tt.class || got.login != tt.login || got.code == "" {
				t.Errorf("read as %+v", got)
			}
		})
	}
}

func TestAnSSHThatWeCutOffIsARefusalOnceALoginWasBegun(t *testing.T) {
	for name, tt := range map[string]struct {
		output string
		class  failureClass
	}{
		"before the login": {sshConnects, classPassing},
		"during the login": {sshOffers, classRefused},
		"a silent one":     {"", classRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil, nil)
				at := &attempt{host: b.Host("login"), pool: b.Pool, loginAt: time.Now(), timeout: newTimeout(time.Second, func() {})}
				time.Sleep(2 * time.Second)
				m := &master{stderr: newStderrBuffer()}
				_, _ = io.WriteString(m.stderr, tt.output)
				err := at.masterFailed(t.Context(), m, errors.New("cut off"))
				if got := at.classOf(err); got != tt.class || !strings.Contains(err.Error(), "within") {
					t.Errorf("class %d, want %d: %v", got, tt.class, err)
				}
			})
		})
	}
}

func TestAnSSHThatWaitsForAPersonHasAPersonsTime(t *testing.T) {
	for _, waits := range []string{
		"debug1: Next authentication method: keyboard-interactive\r\n",
		"debug1: Server accepts key: id ED25519 SHA256:abc agent\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, nil, nil)
			host, person := b.o.Limits.HandshakeTimeout, b.o.Limits.PromptTimeout
			at := &attempt{host: b.Host("login"), pool: b.Pool, timeout: newTimeout(host, func() {})}
			ssh := sshProgress{newStderrBuffer(), at}
			say(ssh, sshOffers+waits)
			time.Sleep(person - time.Second)
			say(ssh, "debug1: Authentications that can continue: publickey\r\n")
			time.Sleep(host - time.Second)
			if at.timeout.expired() {
				t.Errorf("%q: it was cut off", waits)
			}
			time.Sleep(2 * time.Second)
			if !at.timeout.expired() || at.timeout.expiredForPerson() {
				t.Errorf("%q: the host has no limit after it", waits)
			}
		})
	}
}

func TestAnSSHThatAPersonDoesNotHelpInTimeIsNoRefusal(t *testing.T) {
	hungUp := sshOffers + "debug1: Next authentication method: keyboard-interactive\r\nConnection closed by 192.0.2.7 port 22\r\n"
	for name, tt := range map[string]struct {
		output string
		ends   time.Duration
		class  failureClass
	}{
		"nobody is there":       {hungUp, time.Minute, classPassing},
		"nobody confirms":       {sshOffers + "debug1: Next authentication method: keyboard-interactive\r\n", 3 * time.Minute, classNeedsPerson},
		"the server hangs up":   {hungUp, time.Minute, classNeedsPerson},
		"it hangs up at once":   {hungUp, time.Second, classRefused},
		"it refuses at the end": {hungUp + "alice@login: Permission denied (publickey).\r\n", time.Minute, classRefused},
		"it says why": {
			strings.Replace(hungUp, "Connection closed by 192.0.2.7 port 22", "Received disconnect from 192.0.2.7 port 22:2: no", 1),
			time.Minute, classRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil, nil)
				at := &attempt{host: b.Host("login"), pool: b.Pool, attended: name != "nobody is there", loginAt: time.Now(), timeout: newTimeout(time.Second, func() {})}
				m := &master{stderr: newStderrBuffer()}
				say(sshProgress{m.stderr, at}, tt.output)
				time.Sleep(tt.ends)
				if got := at.classOf(at.masterFailed(t.Context(), m, errors.New("ssh ended"))); got != tt.class {
					t.Errorf("class %d, want %d", got, tt.class)
				}
			})
		})
	}
}
