//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/dev/sshtest"
)

// deviceLogin is a login node that asks for Enter after a page was used, and the home of a
// user whose site names that page. The browser creates the file started, and writes what it
// opens to a pipe.
func deviceLogin(t *testing.T, link string) (s *sandbox, started, opened string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl to play the browser")
	}
	server := sshtest.NewServer(t, sshtest.AskForEnter("Authenticate at\n"+link+"\nand press ENTER. "))
	port := server.Listen(t)
	dir := t.TempDir()
	started, opened = filepath.Join(dir, "started"), filepath.Join(dir, "opened")
	if err := syscall.Mkfifo(opened, 0o600); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{
		"known_hosts":       server.Known(fmt.Sprintf("[127.0.0.1]:%d", port)),
		"ssh_config":        fmt.Sprintf("Host device\nHostName 127.0.0.1\nPort %d\nUser ann\nUserKnownHostsFile %s\nIdentityFile none\n", port, filepath.Join(dir, "known_hosts")),
		"config.toml":       "[host.device]\nsite = \"device\"\n",
		"sites/device.toml": "like = \"slurm\"\ntitle = \"a cluster with a device flow\"\nlogin_pages = [\"iam.example.org\"]\n",
		"browser":           "#!/bin/sh\necho >" + started + "\npage=$(curl -s -o /dev/null -w '%{redirect_url}' \"$1\")\nprintf %s \"$page\" >" + opened + "\n",
	})
	return sandboxIn(t, dir, nil, "HOME="+dir, "TERM=xterm", "PATH="+os.Getenv("PATH"),
		"TUNCTL_SSH_CONFIG="+filepath.Join(dir, "ssh_config"), "BROWSER="+filepath.Join(dir, "browser")), started, opened
}

func TestPromptLoginPage(t *testing.T) {
	t.Parallel()
	link := "https://iam.example.org/realms/hpc/device?user_code=ABCD-EFGH&long=" + strings.Repeat("x", 300)
	s, started, opened := deviceLogin(t, link)
	k := s.talk("login", "device")
	k.Expect("device: Authenticate at\r\n" + link + "\r\n") // in one piece, though wider than the terminal
	k.Expect("Open this page of iam.example.org in your browser? [Y/n] ")
	if _, err := os.Stat(started); err == nil {
		t.Error("the page was opened before the person agreed")
	}
	k.Answer("y")
	k.Expect("device: and press ENTER. ")
	if text, err := os.ReadFile(opened); err != nil || string(text) != link {
		t.Errorf("opened %q, %v", text, err)
	}
	k.Answer("")
	k.Expect("connected to device")
	k.WantEnd(0)
}

func TestALinkToAnotherHostIsShownAndNeverOpened(t *testing.T) {
	t.Parallel()
	const link = "https://iam.example.org.evil.example/device"
	s, started, _ := deviceLogin(t, link)
	k := s.talk("login", "device")
	k.Expect(link)
	k.Expect("tunctl opens only pages that the site names in login_pages")
	k.Reply("device: and press ENTER. ", "")
	k.Expect("connected to device")
	k.WantEnd(0)
	if _, err := os.Stat(started); err == nil {
		t.Error("it was opened")
	}
}

func TestWhatIsTypedBeforeAQuestionIsNoAnswer(t *testing.T) {
	t.Parallel()
	s, _, _ := deviceLogin(t, "https://elsewhere.example/device")
	first := s.talk("login", "device")
	first.Answer("typed while it connects")
	first.Expect("press ENTER. ")
	second := s.talk("login", "device")
	second.Reply("waiting for the login in another window", "typed while another window asks")
	first.Type("\x03")
	second.Expect("press ENTER. ")
	second.Answer("") // the server accepts nothing else
	second.Expect("connected to device")
	if code, output := second.End(); code != 0 || strings.Contains(output, "not right") {
		t.Errorf("exit code %d, %q", code, output)
	}
}
