package tunnel

import (
	"bytes"
	"regexp"

	"tunctl/internal/api"
)

// sshReason is why an ssh program ended without a connection, read from its messages.
type sshReason struct {
	class failureClass
	code  api.Code
	hint  string
	login bool // a server saw a login
	ask   bool // it might have logged in with a person's answer
	mute  bool // the server ended the login without a word
}

// sshOutput classifies the messages of OpenSSH's client: the first pattern that matches
// a line decides. The log level must be DEBUG1 or higher, which shows whether a login
// began. A hop's ssh prints among the lines at its own level.
var sshOutput = []struct {
	line   *regexp.Regexp
	reason sshReason
}{
	{
		regexp.MustCompile(`(?m)^(\S+@\S+: )?Permission denied \([^)]*gssapi`),
		sshReason{class: classRefused, code: api.CodeAuth, login: true, ask: true, hint: "where the server uses Kerberos, get a ticket with `kinit` first"},
	},
	{
		regexp.MustCompile(`(?m)^(\S+@\S+: )?Permission denied \(`),
		sshReason{class: classRefused, code: api.CodeAuth, login: true, ask: true},
	},
	{
		regexp.MustCompile(`(?m)^Received disconnect from .*: Too many authentication failures`),
		sshReason{
			class: classRefused, code: api.CodeAuth, login: true,
			hint: "ssh offers many keys: name the right one with IdentityFile and set IdentitiesOnly yes",
		},
	},
	{
		regexp.MustCompile(`(?m)^Host key verification failed`),
		sshReason{class: classPermanent, code: api.CodeHostKey},
	},
	{
		regexp.MustCompile(`(?m)^Unable to negotiate with |: Bad configuration option: |^Bad owner or permissions on `),
		sshReason{class: classPermanent, code: api.CodeConfig},
	},
	{
		regexp.MustCompile(`(?m)^debug1: kex_exchange_identification: banner line \d+: Not allowed at this time`),
		sshReason{class: classBanned, code: api.CodeUnreachable},
	},
	{ // it ended after the login
		regexp.MustCompile(`(?m)^Authenticated to `),
		sshReason{class: classPassing, code: api.CodeUnreachable, login: true},
	},
	{
		regexp.MustCompile(`(?ms)^debug1: SSH2_MSG_SERVICE_ACCEPT received.*^Received disconnect from `),
		sshReason{class: classRefused, code: api.CodeAuth, login: true},
	},
	{ // a server that hangs up during a login has often refused it, as PAM does
		regexp.MustCompile(`(?m)^debug1: (SSH2_MSG_SERVICE_ACCEPT received|Authentications that can continue: )`),
		sshReason{class: classRefused, code: api.CodeAuth, login: true, mute: true},
	},
	{
		regexp.MustCompile(`(?m)^ssh: connect to host .*: Connection refused`),
		sshReason{class: classClosedPort, code: api.CodeUnreachable},
	},
	{
		regexp.MustCompile(`(?m)^ssh: (Could not resolve hostname|connect to host) |^debug1: Connecting to `),
		sshReason{class: classPassing, code: api.CodeUnreachable},
	},
	{ // a hop hung up before a login, as sshd does at MaxStartups
		regexp.MustCompile(`(?m)^kex_exchange_identification: .*\nConnection (closed|reset) by [^U]`),
		sshReason{class: classPassing, code: api.CodeUnreachable},
	},
	{ // a hop hung up, maybe during a login; the host itself would be UNKNOWN
		regexp.MustCompile(`(?m)^(Connection (closed|reset) by|Received disconnect from) [^U]`),
		sshReason{class: classRefused, code: api.CodeAuth, login: true},
	},
	{ // a ProxyCommand that did not connect
		regexp.MustCompile(`(?m)^debug1: `),
		sshReason{class: classPassing, code: api.CodeUnreachable},
	},
}

// readSSHOutput classifies an ssh program's messages. Unknown ones have no class, and may
// have been a login.
func readSSHOutput(output string) sshReason {
	for _, x := range sshOutput {
		if x.line.MatchString(output) {
			return x.reason
		}
	}
	return sshReason{code: api.CodeUnreachable, login: true}
}

// sshProgress reads in the messages of a running ssh program whom its login waits for.
type sshProgress struct {
	*stderrBuffer
	try *attempt
}

var (
	sshAwaitsPerson = regexp.MustCompile(`(?m)^debug1: (Next authentication method: keyboard-interactive|Server accepts key: )`)
	sshAwaitsHost   = regexp.MustCompile(`(?m)^(debug1: Authentications that can continue: |Authenticated to )`)
)

// Write implements io.Writer. ssh writes whole lines.
func (p sshProgress) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		switch {
		case sshAwaitsPerson.Match(line):
			p.try.awaitPerson()
		case sshAwaitsHost.Match(line):
			p.try.awaitHost()
		}
	}
	return p.stderrBuffer.Write(text)
}
