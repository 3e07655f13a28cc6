package failure

import "testing"

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
		class  Class
		login  bool
	}{
		"a key is refused":                {sshOffers + "alice@login: Permission denied (publickey).\r\n", Refused, true},
		"by an old ssh":                   {sshOffers + "Permission denied (publickey).\r\n", Refused, true},
		"too many keys":                   {sshOffers + "Received disconnect from 192.0.2.7 port 22:2: Too many authentication failures\r\nDisconnected from 192.0.2.7 port 22\r\n", Refused, true},
		"PAM hangs up":                    {sshOffers + "Connection closed by 192.0.2.7 port 22\r\n", Refused, true},
		"hung up before a method is told": {sshLogsIn + "Connection closed by 192.0.2.7 port 22\r\n", Refused, true},
		"reset during the login":          {sshOffers + "Connection reset by 192.0.2.7 port 22\r\n", Passing, true},
		"broken during the login":         {sshOffers + "ssh_dispatch_run_fatal: Connection to 192.0.2.7 port 22: Broken pipe\r\n", Passing, true},
		"no route during the login":       {sshOffers + "Read from remote host login: No route to host\r\n", Passing, true},
		"denied, then broken":             {sshOffers + "alice@login: Permission denied (publickey).\r\nclient_loop: send disconnect: Broken pipe\r\n", Refused, true},
		"lost after the login":            {sshOffers + "Authenticated to login ([192.0.2.7]:22) using \"publickey\".\r\nConnection closed by 192.0.2.7 port 22\r\n", Passing, true},
		"a changed host key":              {sshConnects + "Host key verification failed.\r\n", Permanent, false},
		"no common algorithm":             {sshConnects + "Unable to negotiate with 192.0.2.7 port 22: no matching host key type found. Their offer: ssh-dss\r\n", Permanent, false},
		"a wrong option":                  {"/home/alice/.ssh/config: line 3: Bad configuration option: foo\r\n/home/alice/.ssh/config: terminating, 1 bad configuration options\r\n", Permanent, false},
		"a penalty":                       {sshConnects + "debug1: kex_exchange_identification: banner line 0: Not allowed at this time\r\nkex_exchange_identification: Connection closed by remote host\r\nConnection closed by 192.0.2.7 port 22\r\n", Banned, false},
		"a closed port":                   {sshConnects + "debug1: connect to address 192.0.2.7 port 22: Connection refused\r\nssh: connect to host login port 22: Connection refused\r\n", ClosedPort, false},
		"no answer":                       {sshConnects + "ssh: connect to host login port 22: Connection timed out\r\n", Passing, false},
		"no name":                         {"ssh: Could not resolve hostname login: Name or service not known\r\n", Passing, false},
		"too many connections":            {sshConnects + "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 192.0.2.7 port 22\r\n", Passing, false},
		"a hop without a name":            {sshByAnother + "ssh: Could not resolve hostname hop: Name or service not known\r\n" + sshLosesHop, Passing, false},
		"a hop that refuses":              {sshByAnother + "alice@hop: Permission denied (publickey).\r\n" + sshLosesHop, Refused, true},
		"a hop that hangs up":             {sshByAnother + "Connection closed by 192.0.2.9 port 22\r\n" + sshLosesHop, Refused, true},
		"a hop with too many logins":      {sshByAnother + "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 192.0.2.9 port 22\r\n" + sshLosesHop, Passing, false},
		"a ProxyCommand without a VPN":    {"debug1: Executing proxy command: exec vpn-nc login 22\r\nvpn-nc: the VPN is down\r\n" + sshLosesHop, Passing, false},
		"a banner that speaks of refusal": {sshConnects + "Permission denied to all but members.\r\nConnection closed by 192.0.2.7 port 22\r\n", Passing, false},
		"another ssh, or a silent one":    {"", Unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ReadSSH(tt.output); got.Class != tt.class || got.Login != tt.login || got.Code == "" {
				t.Errorf("read as %+v", got)
			}
		})
	}
}
