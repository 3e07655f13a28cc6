//go:build unix

package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/testprogram"
)

// deviceLogin is a login node that asks for Enter after a page was used, and the home of a
// person whose site names that page. The browser creates the file started, and writes what it
// opens to a pipe.
func deviceLogin(t *testing.T, link string) (env []string, started, opened string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl to play the browser")
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{
		KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Authenticate at\n" + link + "\nand press ENTER. "}, []bool{false})
			if err == nil && answers[0] != "" {
				err = errors.New("something was typed")
			}
			return nil, err
		},
	}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				sc, channels, requests, err := ssh.NewServerConn(c, config)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				for ch := range channels {
					_ = ch.Reject(ssh.Prohibited, "only a login")
				}
				_ = sc.Close()
			}()
		}
	}()

	dir := t.TempDir()
	started, opened = filepath.Join(dir, "started"), filepath.Join(dir, "opened")
	if err := syscall.Mkfifo(opened, 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for name, text := range map[string]string{
		"known_hosts":       fmt.Sprintf("[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(signer.PublicKey())),
		"ssh_config":        fmt.Sprintf("Host device\nHostName 127.0.0.1\nPort %s\nUser ann\nUserKnownHostsFile %s\nIdentityFile none\n", port, filepath.Join(dir, "known_hosts")),
		"config.toml":       "[host.device]\nsite = \"device\"\n",
		"sites/device.toml": "like = \"slurm\"\ntitle = \"a cluster with a device flow\"\nlogin_pages = [\"iam.example.org\"]\n",
		"browser":           "#!/bin/sh\necho >" + started + "\npage=$(curl -s -o /dev/null -w '%{redirect_url}' \"$1\")\nprintf %s \"$page\" >" + opened + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := testprogram.Write(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := endAgent(dir); err != nil {
			t.Error(err)
		}
	})
	return []string{
		"TUNCTL_HOME=" + dir, "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"),
		"TUNCTL_SSH_CONFIG=" + filepath.Join(dir, "ssh_config"), "BROWSER=" + filepath.Join(dir, "browser"),
	}, started, opened
}

func TestALoginPageIsOpenedIfThePersonAgrees(t *testing.T) {
	t.Parallel()
	link := "https://iam.example.org/realms/hpc/device?user_code=ABCD-EFGH&long=" + strings.Repeat("x", 300)
	env, started, opened := deviceLogin(t, link)
	k := startTalk(t, env, "login", "device")
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
	if code, _ := k.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestALinkToAnotherHostIsShownAndNeverOpened(t *testing.T) {
	t.Parallel()
	const link = "https://iam.example.org.evil.example/device"
	env, started, _ := deviceLogin(t, link)
	k := startTalk(t, env, "login", "device")
	k.Expect(link)
	k.Expect("tunctl opens only pages that the site names in login_pages")
	k.Expect("device: and press ENTER. ")
	k.Answer("")
	k.Expect("connected to device")
	if code, _ := k.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("it was opened")
	}
}

func TestWhatIsTypedBeforeAQuestionIsNoAnswer(t *testing.T) {
	t.Parallel()
	env, _, _ := deviceLogin(t, "https://elsewhere.example/device")
	first := startTalk(t, env, "login", "device")
	first.Answer("typed while it connects")
	first.Expect("press ENTER. ")
	second := startTalk(t, env, "login", "device")
	second.Expect("waiting for the login in another window")
	second.Answer("typed while another window asks")
	first.Type("\x03")
	second.Expect("press ENTER. ")
	second.Answer("") // the server accepts nothing else
	second.Expect("connected to device")
	if code, output := second.End(); code != 0 || strings.Contains(output, "not right") {
		t.Errorf("exit code %d, %q", code, output)
	}
}
