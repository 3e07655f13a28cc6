package sshconfig

import (
	"slices"
	"testing"

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
