package e2e

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/proxy"

	"tunctl/internal/lab/real"
)

// remoteServer stands in for VS Code's server: it listens on the host's loopback and on
// a socket in the home folder, says where, and echoes.
const remoteServer = `
set -e
echo "$TRIGGER: running"
mkdir -p ~/.vscode-stand-in; rm -f ~/.vscode-stand-in/sock
exec perl -e '
use IO::Socket::INET; use IO::Socket::UNIX; use IO::Select; $| = 1; $SIG{CHLD} = "IGNORE";
my $tcp = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 64) or die;
my $unix = IO::Socket::UNIX->new(Local => "$ENV{HOME}/.vscode-stand-in/sock", Listen => 64) or die;
print "listeningOn==", $tcp->sockport, "\n";
my $all = IO::Select->new($tcp, $unix, \*STDIN);
while (my @ready = $all->can_read) { for my $l (@ready) {
  if ($l == \*STDIN) { exit 0 unless sysread(STDIN, my $b, 4096); next }
  my $c = $l->accept or next;
  if (fork) { close $c; next }
  while (sysread($c, my $b, 65536)) { my $o = 0; $o += syswrite($c, $b, length($b) - $o, $o) while $o < length $b }
  exit 0;
} }'
`

// TestWhatVSCodeDoesWithSSHWorksThroughTheGateway does what VS Code's Remote-SSH does with ssh: a
// script for bash on standard input, a SOCKS port on the same connection, and then many
// connections at once to the server that the script started, by port and by socket.
func TestWhatVSCodeDoesWithSSHWorksThroughTheGateway(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	g := newGuest(t, "[host.lab-login]\n")
	g.run("login", "lab-login")
	const host = "lab-login.tun"

	home := strings.TrimSpace(g.ssh(host, "pwd"))
	socks, socket := freeAddress(t), freeAddress(t)
	cmd := g.program("ssh", "-T", "-D", socks, "-L", socket+":"+home+"/.vscode-stand-in/sock", "-F", g.sshConfig,
		"-o", "ConnectTimeout=15", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=5", host, "bash")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var talk bytes.Buffer
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "TRIGGER=a1b2c3\n"+remoteServer); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var said []string
	for lines.Scan() && !strings.Contains(lines.Text(), "listeningOn==") {
		said = append(said, lines.Text())
	}
	_, port, _ := strings.Cut(lines.Text(), "listeningOn==")
	if port == "" || !slices.Contains(said, "a1b2c3: running") {
		t.Fatalf("the script said %q, and then %q", said, lines.Text())
	}
	dialer, err := proxy.SOCKS5("tcp", socks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			if i%3 == 0 {
				comesBack(t, func() (net.Conn, error) { return net.Dial("tcp", socket) })
				return
			}
			comesBack(t, func() (net.Conn, error) { return dialer.Dial("tcp", "127.0.0.1:"+port) })
		})
	}
	wg.Wait()
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, talk.String())
	}
}

// freeAddress is an address of loopback that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// comesBack checks that what is sent comes back.
func comesBack(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	sent := make([]byte, 256<<10)
	_, _ = rand.Read(sent)
	go func() { _, _ = conn.Write(sent) }() // what is wrong with it shows at the other end
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("other bytes came back: %v", err)
	}
}
