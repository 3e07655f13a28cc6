package failure

import (
	"regexp"

	"tunctl/internal/api"
)

// SSHReason is why an ssh program ended without a connection, read from its messages.
type SSHReason struct {
	Class Class
	Code  api.Code
	Hint  string
	Login bool // a server saw a login
	Ask   bool // it might have logged in with the user's answer
	Mute  bool // the login ended without a word of the server
	Lost  bool // the connection broke
}

// lostLink is what OpenSSH's client prints when its connection breaks. A server that closes
// it is "Connection closed by".
var lostLink = regexp.MustCompile(`(?m)^(Connection reset by |Connection to .* closed by remote host|Read from remote host |Timeout, server |(ssh_dispatch_run_fatal|client_loop|packet_write_wait): )`)

// sshOutput classifies the messages of OpenSSH's client: the first pattern that matches
// a line decides. The log level must be DEBUG1 or higher, which shows whether a login
// began. A hop's ssh prints among the lines at its own level.
var sshOutput = []struct {
	line   *regexp.Regexp
	reason SSHReason
}{
	{
		regexp.MustCompile(`(?m)^(\S+@\S+: )?Permission denied \([^)]*gssapi`),
		SSHReason{Class: Refused, Code: api.CodeAuth, Login: true, Ask: true, Hint: "where the server uses Kerberos, get a ticket with `kinit` first"},
	},
	{
		regexp.MustCompile(`(?m)^(\S+@\S+: )?Permission denied \(`),
		SSHReason{Class: Refused, Code: api.CodeAuth, Login: true, Ask: true},
	},
	{
		regexp.MustCompile(`(?m)^Received disconnect from .*: Too many authentication failures`),
		SSHReason{
			Class: Refused, Code: api.CodeAuth, Login: true,
			Hint: "ssh offers many keys: name the right one with IdentityFile and set IdentitiesOnly yes",
		},
	},
	{
		regexp.MustCompile(`(?m)^Host key verification failed`),
		SSHReason{Class: Permanent, Code: api.CodeHostKey},
	},
	{
		regexp.MustCompile(`(?m)^Unable to negotiate with |: Bad configuration option: |^Bad owner or permissions on `),
		SSHReason{Class: Permanent, Code: api.CodeConfig},
	},
	{
		regexp.MustCompile(`(?m)^debug1: kex_exchange_identification: banner line \d+: Not allowed at this time`),
		SSHReason{Class: Banned, Code: api.CodeUnreachable},
	},
	{ // it ended after the login
		regexp.MustCompile(`(?m)^Authenticated to `),
		SSHReason{Class: Passing, Code: api.CodeUnreachable, Login: true},
	},
	{
		regexp.MustCompile(`(?ms)^debug1: SSH2_MSG_SERVICE_ACCEPT received.*^Received disconnect from `),
		SSHReason{Class: Refused, Code: api.CodeAuth, Login: true},
	},
	{ // a server that hangs up during a login has often refused it, as PAM does
		regexp.MustCompile(`(?m)^debug1: (SSH2_MSG_SERVICE_ACCEPT received|Authentications that can continue: )`),
		SSHReason{Class: Refused, Code: api.CodeAuth, Login: true, Mute: true},
	},
	{
		regexp.MustCompile(`(?m)^ssh: connect to host .*: Connection refused`),
		SSHReason{Class: ClosedPort, Code: api.CodeUnreachable},
	},
	{
		// The last: a hop hung up before a login, as sshd does at MaxStartups.
		regexp.MustCompile(`(?m)^ssh: (Could not resolve hostname|connect to host) |^debug1: Connecting to |^kex_exchange_identification: .*\nConnection (closed|reset) by [^U]`),
		SSHReason{Class: Passing, Code: api.CodeUnreachable},
	},
	{ // a hop hung up, maybe during a login; the host itself would be UNKNOWN
		regexp.MustCompile(`(?m)^(Connection (closed|reset) by|Received disconnect from) [^U]`),
		SSHReason{Class: Refused, Code: api.CodeAuth, Login: true},
	},
	{ // a ProxyCommand that did not connect
		regexp.MustCompile(`(?m)^debug1: `),
		SSHReason{Class: Passing, Code: api.CodeUnreachable},
	},
}

// ReadSSH classifies an ssh program's messages. Unknown ones have no class, and may
// have been a login.
func ReadSSH(output string) SSHReason {
	for _, x := range sshOutput {
		if !x.line.MatchString(output) {
			continue
		}
		x.reason.Lost = lostLink.MatchString(output)
		if x.reason.Mute && x.reason.Lost {
			x.reason.Class, x.reason.Code = Passing, api.CodeUnreachable
		}
		return x.reason
	}
	return SSHReason{Code: api.CodeUnreachable, Login: true}
}
