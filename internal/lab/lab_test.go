package lab

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/wait"

	"golang.org/x/crypto/ssh"
)

// practice starts a cluster for one test. Its jobs do not wait in the queue unless
// the test asks for it.
func practice(t *testing.T, o Options) *Cluster {
	t.Helper()
	if findShell() == "" {
		t.Skip("no shell here")
	}
	o.Dir = t.TempDir()
	if o.QueueFor == 0 {
		o.QueueFor = -1
	}
	c, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func withPage(t *testing.T, o Options) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.PageCommand = []string{self, pageProgram}
	return o
}

func dial(t *testing.T, c *Cluster) *ssh.Client {
	t.Helper()
	client, err := login(t, c, user, "id_ed25519")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func login(t *testing.T, c *Cluster, user, key string) (*ssh.Client, error) {
	t.Helper()
	pem, err := os.ReadFile(filepath.Join(c.sshDir(), key))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Dial("tcp", c.Addr(), &ssh.ClientConfig{
		User:            user,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // the test of OpenSSH checks the host key
		Timeout:         patience,
	})
}

type answer struct {
	stdout, stderr string
	status         int
}

func run(t *testing.T, client *ssh.Client, command, stdin string) answer {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(stdin), &out, &errs
	a := answer{}
	if err := s.Run(command); err != nil {
		exit, ok := errors.AsType[*ssh.ExitError](err)
		if !ok {
			t.Fatalf("%s: %v", command, err)
		}
		a.status = exit.ExitStatus()
	}
	a.stdout, a.stderr = out.String(), errs.String()
	return a
}

// patience is how long a test waits for another process, at most.
const patience = wait.Limit

func TestCommandsRunAsTheStudent(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	a := run(t, client, `echo "$HOME $USER $(id -un) $(hostname) $(uname -n)"; cat; echo oops >&2; exit 3`, "input")
	want := c.Home() + " student student practice-login practice-login\ninput"
	if a.stdout != want || a.stderr != "oops\n" || a.status != 3 {
		t.Errorf("got %+v, want stdout %q, stderr oops, status 3", a, want)
	}
}

func TestALoginShellReadsTheStudentsProfileOnceAndItsJobsDoNot(t *testing.T) {
	if filepath.Base(findShell()) != "bash" {
		t.Skip("no bash here")
	}
	c := practice(t, Options{})
	client := dial(t, c)
	run(t, client, `echo 'echo Welcome; export SITE=yes' >.bash_profile`, "")
	for command, stdin := range map[string]string{
		`exec bash -lc 'echo "$SITE"; bash -c "echo again"'`: "",
		`exec bash -l -s`:      "echo $SITE\nbash -c 'echo again'\n",
		`exec bash --login -s`: "echo $SITE\nbash -c 'echo again'\n",
	} {
		if a := run(t, client, command, stdin); a.stdout != "Welcome\nyes\nagain\n" {
			t.Errorf("%s: %+v", command, a)
		}
	}
	if a := run(t, client, "bash -lc 'sbatch --wait -o log --wrap \"bash -c env\"' >/dev/null; grep -c Welcome log; grep SITE= log", ""); a.stdout != "0\nSITE=yes\n" {
		t.Errorf("the job: %+v", a)
	}
}

func TestUnixSocketsAreReachedThroughTheLoginNode(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	path := filepath.Join(c.dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	conn, err := client.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = far.Write([]byte("hello"))
	_ = far.Close()
	if text, err := io.ReadAll(conn); string(text) != "hello" {
		t.Errorf("read %q, %v", text, err)
	}
	_ = listener.Close()
	if _, err := client.Dial("unix", path); err == nil {
		t.Error("a socket that is gone was connected to")
	}
}

func TestAStreamThatEndedOnBothSidesIsClosedFirstByTheServer(t *testing.T) {
	client := dial(t, practice(t, Options{}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	to := listener.Addr().(*net.TCPAddr)
	channel, requests, err := client.OpenChannel("direct-tcpip", ssh.Marshal(struct {
		Host       string
		Port       uint32
		Originator string
		FromPort   uint32
	}{to.IP.String(), uint32(to.Port), "127.0.0.1", 0}))
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	_ = channel.CloseWrite()
	wait.For(t, "the server closes the channel, although the client waits for that, too", requests)
}

func TestAClusterStartsInTheFolderOfOneBefore(t *testing.T) {
	before := practice(t, Options{})
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Start(Options{Dir: before.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if a := run(t, dial(t, c), "squeue -h", ""); a != (answer{}) {
		t.Errorf("squeue: %+v", a)
	}
}

func TestOpenSSHLogsInAndRunsCommands(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no ssh here")
	}
	c := practice(t, Options{})
	for _, host := range []string{"practice", "cn01"} {
		cmd := exec.CommandContext(t.Context(), ssh, "-F", c.SSHConfig(), "-o", "BatchMode=yes", host, "squeue --version; exit 7")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 7 || !strings.Contains(string(out), slurmVersion) {
			t.Errorf("ssh %s: %v: %s", host, err, out)
		}
	}
}
