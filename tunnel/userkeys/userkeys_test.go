package userkeys

import (
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/testprogram"
	"tunctl/tunnel/sshconfig"

	"golang.org/x/crypto/ssh/agent"
)

func TestKeysThatOthersCanReadAreNotUsed(t *testing.T) {
	path, _ := sshtest.NewKeyFile(t)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loadKey(path, &Keyring{}, nil); err == nil {
		t.Skip("this system has no file modes")
	} else if !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("loadKey: %v", err)
	}
}

func TestAnEncryptedKeyOfSSHKeygenIsRead(t *testing.T) {
	testprogram.Need(t, "ssh-keygen")
	for _, args := range [][]string{{"-t", "ed25519", "-a", "1"}, {"-t", "ecdsa", "-m", "PEM"}} {
		path := filepath.Join(t.TempDir(), "id")
		args = append(args, "-q", "-N", "secret", "-f", path)
		if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		asked := 0
		k, err := loadKey(path, &Keyring{}, func(api.Prompt) (string, error) { asked++; return "secret", nil })
		if err != nil || asked != 0 {
			t.Fatalf("%v: %v, asked %d times before it was wanted", args, err, asked)
		}
		sig, err := k.Sign(rand.Reader, []byte("data"))
		if err != nil || k.PublicKey().Verify([]byte("data"), sig) != nil || asked != 1 {
			t.Errorf("%v: %v", args, err)
		}
		text, _ := os.ReadFile(path)
		if b, _ := pem.Decode(text); b == nil {
			t.Errorf("%v: no PEM", args)
		}
	}
}

func TestAnAgentThatAcceptsAndSaysNothingIsPassedOver(t *testing.T) {
	t.Parallel() // for its time limit it waits only
	if runtime.GOOS == "windows" {
		t.Skip("needs unix sockets")
	}
	ring, public := sshtest.NewKeyring(t)
	good := sshtest.ServeAgent(t, ring)
	mute := sshtest.ServeAgent(t, agent.NewKeyring())
	hold, err := net.Dial("unix", mute) // the agent serves one at a time: whoever comes next waits
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Close() }()
	a, err := dialAgent(t.Context(), &sshconfig.Settings{}, []api.Env{{"SSH_AUTH_SOCK": mute}, {"SSH_AUTH_SOCK": good}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	keys, err := a.Signers()
	if err != nil || len(keys) != 1 || !sshconfig.SameKey(keys[0].PublicKey(), public) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

func TestTheEndOfACertificateFileIsKnownWithoutALogin(t *testing.T) {
	path, public := sshtest.NewKeyFile(t)
	s := sshconfig.Settings{IdentityFiles: []string{path}}
	if ends := CertificateEnds(&s); !ends.IsZero() {
		t.Errorf("without a certificate: %v", ends)
	}
	written := time.Now()
	sshtest.WriteCertificate(t, path+"-cert.pub", sshtest.NewSigner(t), public, time.Hour)
	if end := CertificateEnds(&s); end.Before(written.Add(time.Hour-time.Second)) || end.After(time.Now().Add(time.Hour)) {
		t.Errorf("it ends at %v", end)
	}
	other := path + "-other-cert.pub"
	sshtest.WriteCertificate(t, other, sshtest.NewSigner(t), public, 3*time.Hour)
	s.CertificateFiles = []string{other}
	if end := CertificateEnds(&s); end.Before(written.Add(2 * time.Hour)) { // the one that serves longest
		t.Errorf("it ends at %v", end)
	}
}
