package sshconfig

import (
	"cmp"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/cpu"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// supportedAlgorithms are those of the library, the fastest cipher first: Go's AES-GCM
// is three times faster than its ChaCha20 on a CPU with AES. Host keys are in OpenSSH's
// order, so that a new host shows the key and fingerprint that ssh would show.
func supportedAlgorithms() ssh.Algorithms {
	all := ssh.SupportedAlgorithms()
	gcm := []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM}
	if cpu.X86.HasAES || cpu.ARM64.HasAES || cpu.S390X.HasAESGCM {
		rest := slices.DeleteFunc(all.Ciphers, func(c string) bool { return slices.Contains(gcm, c) })
		all.Ciphers = slices.Concat(gcm, rest)
	}
	slices.SortStableFunc(all.HostKeys, func(a, b string) int { return cmp.Compare(hostKeyRank(a), hostKeyRank(b)) })
	return all
}

// hostKeyRank is smaller for what OpenSSH prefers: certificates, then by kind.
func hostKeyRank(algorithm string) int {
	rank := 3 * len(hostKeyKinds)
	for i, kind := range hostKeyKinds {
		if strings.Contains(algorithm, kind) {
			rank = i
		}
	}
	if !strings.Contains(algorithm, "-cert-") {
		rank += len(hostKeyKinds)
	}
	return rank
}

var hostKeyKinds = []string{"ed25519", "ecdsa", "rsa-sha2-512", "rsa-sha2-256"}

// Algorithms are those to offer: the user's as far as the library supports them,
// otherwise ours. If nothing is left of a list that is an error, not a silent default:
// somebody restricted it for a reason.
func (s *Settings) Algorithms() (common ssh.Config, hostKeys []string, err error) {
	ours, insecure := supportedAlgorithms(), ssh.InsecureAlgorithms()
	pick := func(name string, own, safe, unsafe []string) []string {
		if len(own) == 0 {
			return safe
		}
		var usable []string
		for _, a := range own {
			if slices.Contains(safe, a) || slices.Contains(unsafe, a) {
				usable = append(usable, a)
			}
		}
		if len(usable) == 0 && err == nil {
			err = failure.Permanent.Errorf(api.CodeConfig, nil, "none of the %s in the ssh settings of %q is supported: %q",
				name, s.Alias, own).
				WithHint(`set transport = "openssh" for this host`)
		}
		return usable
	}
	common = ssh.Config{
		KeyExchanges: pick("KexAlgorithms", s.KexAlgorithms, ours.KeyExchanges, insecure.KeyExchanges),
		Ciphers:      pick("Ciphers", s.Ciphers, ours.Ciphers, insecure.Ciphers),
		MACs:         pick("MACs", s.MACs, ours.MACs, insecure.MACs),
	}
	hostKeys = pick("HostKeyAlgorithms", s.HostKeyAlgorithms, ours.HostKeys, insecure.HostKeys)
	return common, hostKeys, err
}

// AcceptsCASignature reports whether an authority may sign a host's key with that
// algorithm. The default excludes SHA-1.
func (s *Settings) AcceptsCASignature(algorithm string) bool {
	accepted := s.CASignatureAlgorithms
	if len(accepted) == 0 {
		accepted = ssh.SupportedAlgorithms().PublicKeyAuths
	}
	return matchAny(accepted, algorithm)
}

// CheckRSASize refuses an RSA key that is shorter than RequiredRSASize.
func (s *Settings) CheckRSASize(key ssh.PublicKey) error {
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	wire, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return nil
	}
	public, ok := wire.CryptoPublicKey().(*rsa.PublicKey)
	if !ok || public.N.BitLen() >= s.RequiredRSASize {
		return nil
	}
	return fmt.Errorf("an RSA key of %d bits is too short: RequiredRSASize is %d", public.N.BitLen(), s.RequiredRSASize)
}

// Restrict limits a key to the signatures of PubkeyAcceptedAlgorithms; only RSA keys
// have several. The error is why the key cannot be used at all.
func (s *Settings) Restrict(signer ssh.Signer) (ssh.Signer, error) {
	if len(s.PubkeyAcceptedAlgorithms) == 0 {
		return signer, nil
	}
	format := signer.PublicKey().Type()
	names := []string{format}
	if cert, isRSA := strings.CutPrefix(format, ssh.KeyAlgoRSA); isRSA { // cert ends the names of certificates
		names = []string{ssh.KeyAlgoRSASHA256 + cert, ssh.KeyAlgoRSASHA512 + cert, format}
	}
	var accepted []string
	for _, pattern := range s.PubkeyAcceptedAlgorithms {
		for _, name := range names {
			signature, _, _ := strings.Cut(name, "-cert-")
			if matchAny([]string{pattern}, name) && !slices.Contains(accepted, signature) {
				accepted = append(accepted, signature)
			}
		}
	}
	as, several := signer.(ssh.AlgorithmSigner)
	switch {
	case len(accepted) == 0:
		return nil, fmt.Errorf("PubkeyAcceptedAlgorithms allows no signature of a key of type %s", format)
	case several && len(names) > 1:
		return ssh.NewSignerWithAlgorithms(as, accepted)
	}
	return signer, nil
}

// SameKey reports whether two keys are the same; nil is none.
func SameKey(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && string(a.Marshal()) == string(b.Marshal())
}

// DescribeKey is a key for display.
func DescribeKey(key ssh.PublicKey) string { return KeyType(key) + " " + ssh.FingerprintSHA256(key) }

// KeyType is a key's type for display: ED25519, ECDSA, RSA.
func KeyType(key ssh.PublicKey) string {
	t := strings.TrimPrefix(strings.TrimPrefix(key.Type(), "sk-"), "ssh-")
	t, _, _ = strings.Cut(t, "@")
	t, _, _ = strings.Cut(t, "-")
	return strings.ToUpper(t)
}
