package sshconfig

import (
	"slices"
	"testing"

	"tunctl/internal/api"

	"golang.org/x/crypto/ssh"
)

func TestANewHostShowsTheKeyThatOpenSSHWouldShow(t *testing.T) {
	order := []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoRSASHA512v01,
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	all := supportedAlgorithms().HostKeys
	at := make([]int, len(order))
	for i, a := range order {
		at[i] = slices.Index(all, a)
	}
	if !slices.IsSorted(at) || at[0] != 0 {
		t.Errorf("host keys are preferred in the order %q", all)
	}
}

func TestAlgorithmsThatAPersonForbadeAreNotOffered(t *testing.T) {
	config, keys, err := (&Settings{Ciphers: []string{"aes256-ctr", "made-up"}, HostKeyAlgorithms: []string{"ssh-ed25519"}}).Algorithms()
	if err != nil || !slices.Equal(config.Ciphers, []string{"aes256-ctr"}) || !slices.Equal(keys, []string{"ssh-ed25519"}) {
		t.Errorf("%q %q %v", config.Ciphers, keys, err)
	}
	if _, _, err := (&Settings{Ciphers: []string{"made-up"}}).Algorithms(); codeOf(err) != api.CodeConfig {
		t.Errorf("nothing left: %v", err)
	}
}
