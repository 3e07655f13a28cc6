package tunnel

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// answerOn serves each connection to a local port with serve.
func answerOn(t *testing.T, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, serve)
	return l.Addr().(*net.TCPAddr).Port
}

// serveEach serves each connection to l with serve until the test ends.
func serveEach(t *testing.T, l net.Listener, serve func(net.Conn)) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer closing(c)
				serve(c)
			})
		}
	})
}

func TestALookTellsWhatIsWrongAndTriesNoLogin(t *testing.T) {
	server := sshtest.NewServer(t, sshtest.AcceptAnybody)
	sshPort := server.Listen(t)
	portal := answerOn(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 302 Found\r\nLocation: http://portal/\r\n\r\n") })
	shut := answerOn(t, func(net.Conn) {})
	known := filepath.Join(t.TempDir(), "known")
	host := fmt.Sprintf("[127.0.0.1]:%d", sshPort)
	tests := []struct {
		name  string
		port  int
		known string
		see   PreflightResult // only whether its fields are set
		code  api.Code
		words string
	}{
		{"all is well", sshPort, server.Known(host), PreflightResult{"x", "x", "x"}, "", ""},
		{"an unknown key", sshPort, "", PreflightResult{"x", "x", "x"}, api.CodeNeedsPerson, "is unknown (SHA256:"},
		{"a changed key", sshPort, sshtest.NewServer(t).Known(host), PreflightResult{"x", "x", "x"}, api.CodeHostKey, "has changed"},
		{"a captive portal", portal, "", PreflightResult{"x", "", ""}, api.CodeUnreachable, "does not respond as an SSH server"},
		{"hung up on", shut, "", PreflightResult{"x", "", ""}, api.CodeUnreachable, "closed the connection at once"},
		{"nobody listens", 1, "", PreflightResult{}, api.CodeUnreachable, "refused the connection"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, known, tt.known)
			seen, err := Preflight(t.Context(), sshconfig.Settings{
				Alias: "narval", Hostname: "127.0.0.1", Port: tt.port, UserKnownHosts: []string{known}, StrictHostKeyChecking: "no",
			})
			for i, pair := range [][2]string{{seen.Address, tt.see.Address}, {seen.Greeting, tt.see.Greeting}, {seen.HostKey, tt.see.HostKey}} {
				if (pair[0] == "") != (pair[1] == "") {
					t.Errorf("field %d of %+v", i, seen)
				}
			}
			e, _ := errors.AsType[*api.Error](err)
			if tt.code == "" && err != nil || tt.code != "" && (e == nil || e.Code != tt.code || !strings.Contains(e.Message, tt.words)) {
				t.Errorf("err = %v", err)
			}
			after, err := os.ReadFile(known)
			if err != nil || string(after) != tt.known {
				t.Errorf("known_hosts was changed to %q (%v)", after, err)
			}
		})
	}
	server.WantLogins(t, 0)
}
