package userkeys

import (
	"crypto/ed25519"
	"errors"
	"os"
	"regexp"
	"testing"

	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/sys/windows"

	"tunctl/internal/dev/must"
	"tunctl/tunnel/sshconfig"
)

func TestAgentOnAPipe(t *testing.T) {
	const pipe = `\\.\pipe\tunctl-test-agent`
	name, err := windows.UTF16PtrFromString(pipe)
	must.Do(t, err)
	h, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX, windows.PIPE_TYPE_BYTE|windows.PIPE_WAIT, 1, 4<<10, 4<<10, 0, nil)
	must.Do(t, err)
	_, private, err := ed25519.GenerateKey(nil)
	must.Do(t, err)
	keys := agent.NewKeyring()
	must.Do(t, keys.Add(agent.AddedKey{PrivateKey: private}))
	go func() {
		if err := windows.ConnectNamedPipe(h, nil); err == nil || errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
			_ = agent.ServeAgent(keys, os.NewFile(uintptr(h), pipe)) // until the client leaves
		}
	}()
	a, err := dialAgent(t.Context(), &sshconfig.Settings{IdentityAgent: pipe}, nil)
	must.Do(t, err)
	defer a.close()
	if signers, err := a.Signers(); err != nil || len(signers) != 1 {
		t.Errorf("%d keys, %v", len(signers), err)
	}
	if _, err := dialAgent(t.Context(), &sshconfig.Settings{IdentityAgent: pipe + "-none"}, nil); !errors.Is(err, errNoAgent) {
		t.Error(err)
	}
}

func TestPageantsPipeIsTheSameEachTime(t *testing.T) {
	first, err := pageantPipe()
	if err != nil {
		t.Fatal(err)
	}
	again, err := pageantPipe()
	if err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	if !regexp.MustCompile(`^\\\\\.\\pipe\\pageant\.[^\\]+\.[0-9a-f]{64}$`).MatchString(first) {
		t.Errorf("pipe %q", first)
	}
}
