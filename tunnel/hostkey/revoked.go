package hostkey

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the format has SHA-1 fingerprints
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// krlMagic begins a key revocation list (OpenSSH's PROTOCOL.krl).
const krlMagic = "SSHKRL\n\x00"

// The sections of a KRL, and those within the section of an authority's certificates.
const (
	krlCertificates = 1
	krlKeys         = 2
	krlSHA1         = 3
	krlSignature    = 4
	krlSHA256       = 5
	krlExtension    = 255

	krlSerials         = 0x20
	krlSerialRange     = 0x21
	krlSerialBitmap    = 0x22
	krlKeyIDs          = 0x23
	krlCertExtension   = 0x39
	krlFormatVersion   = 1
	maxKRLBitmapLength = 64 << 10 // bytes; ssh-keygen writes far shorter ones
)

// krl is a key revocation list.
type krl struct {
	keys  map[string]bool // in wire format, or their SHA-1 or SHA-256, which are shorter
	certs []krlAuthority
}

// krlAuthority is what a list says about the certificates of one authority.
type krlAuthority struct {
	key     string // in wire format; "" is any authority
	ids     map[string]bool
	serials []func(uint64) bool
}

// has reports whether a key, its certificate, or the authority that signed it is
// revoked.
func (l *krl) has(key ssh.PublicKey) bool {
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return l.hasPlain(key)
	}
	return l.hasPlain(cert.Key) || l.hasPlain(cert.SignatureKey) || l.hasCertificate(cert)
}

func (l *krl) hasPlain(key ssh.PublicKey) bool {
	blob := key.Marshal()
	old, sum := sha1.Sum(blob), sha256.Sum256(blob) //nolint:gosec // see above
	return l.keys[string(blob)] || l.keys[string(old[:])] || l.keys[string(sum[:])]
}

func (l *krl) hasCertificate(cert *ssh.Certificate) bool {
	for _, a := range l.certs {
		if a.key != "" && a.key != string(cert.SignatureKey.Marshal()) {
			continue
		}
		if a.ids[cert.KeyId] {
			return true
		}
		for _, revoked := range a.serials {
			// Certificates without a serial number have zero.
			if cert.Serial != 0 && revoked(cert.Serial) {
				return true
			}
		}
	}
	return false
}

// readRevokedKeys reads a RevokedHostKeys file: public keys, one a line, or a KRL. If any
// part of it cannot be read, that is an error: it may be the revocation that matters.
func readRevokedKeys(path string) (*krl, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(content, []byte(krlMagic)) {
		return parseKRL(content)
	}
	list := &krl{keys: map[string]bool{}}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		blob, err := revokedBlob(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list.keys[blob] = true
	}
	return list, nil
}

// revokedBlob is the plain key of a line. A key type that the library does not know is
// kept as it is: no server can show it to us.
func revokedBlob(fields []string) (string, error) {
	if len(fields) < 2 {
		return "", errors.New("the line lacks a key type or key")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return "", errors.New("the key is not base64")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		var named struct {
			Type string
			Rest []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(blob, &named) != nil || named.Type != fields[0] {
			return "", fmt.Errorf("the key cannot be read: %w", err)
		}
		return string(blob), nil
	}
	return string(Plain(key).Marshal()), nil
}

var errKRLShort = errors.New("the key revocation list is truncated")

func unmarshalKRL(data []byte, to any) error {
	if ssh.Unmarshal(data, to) != nil {
		return errKRLShort
	}
	return nil
}

// krlSection is a part of a list, and what follows it.
type krlSection struct {
	Kind byte
	Body []byte
	Rest []byte `ssh:"rest"`
}

// readKRLSections calls read for each section.
func readKRLSections(data []byte, read func(*krlSection) error) error {
	for len(data) > 0 {
		var s krlSection
		if err := unmarshalKRL(data, &s); err != nil {
			return err
		}
		if err := read(&s); err != nil {
			return err
		}
		data = s.Rest
	}
	return nil
}

// parseKRL reads a list. It checks no signatures, and neither does ssh: who can write
// the file can also name another.
func parseKRL(content []byte) (*krl, error) {
	var head struct {
		Magic   [len(krlMagic)]byte
		Version uint32
		Rest    []byte `ssh:"rest"`
	}
	if err := unmarshalKRL(content, &head); err != nil {
		return nil, err
	}
	if head.Version != krlFormatVersion {
		return nil, fmt.Errorf("the key revocation list has the format %d, which tunctl does not support", head.Version)
	}
	var about struct {
		Number, Date, Flags uint64
		Reserved, Comment   []byte
		Sections            []byte `ssh:"rest"`
	}
	if err := unmarshalKRL(head.Rest, &about); err != nil {
		return nil, err
	}
	l := &krl{keys: map[string]bool{}}
	return l, readKRLSections(about.Sections, l.readSection)
}

func (l *krl) readSection(s *krlSection) error {
	switch s.Kind {
	case krlCertificates:
		return l.readCertificates(s.Body)
	case krlKeys, krlSHA1, krlSHA256:
		return readKRLStrings(s.Body, l.keys)
	case krlExtension:
		return checkKRLExtension(s.Body)
	case krlSignature: // the body is the key
		var signed struct {
			Signature []byte
			Rest      []byte `ssh:"rest"`
		}
		err := unmarshalKRL(s.Rest, &signed)
		s.Rest = signed.Rest
		return err
	}
	return fmt.Errorf("the key revocation list has a section %d, which tunctl does not support", s.Kind)
}

func readKRLStrings(data []byte, into map[string]bool) error {
	for len(data) > 0 {
		var next struct {
			Text string
			Rest []byte `ssh:"rest"`
		}
		if err := unmarshalKRL(data, &next); err != nil {
			return err
		}
		into[next.Text] = true
		data = next.Rest
	}
	return nil
}

// checkKRLExtension refuses a critical extension, since none is supported.
func checkKRLExtension(data []byte) error {
	var x struct {
		Name     string
		Critical bool
		Rest     []byte `ssh:"rest"`
	}
	if err := unmarshalKRL(data, &x); err != nil {
		return err
	}
	if x.Critical {
		return fmt.Errorf("the key revocation list needs %q, which tunctl does not support", x.Name)
	}
	return nil
}

func (l *krl) readCertificates(data []byte) error {
	var of struct {
		Authority string
		Reserved  []byte
		Sections  []byte `ssh:"rest"`
	}
	if err := unmarshalKRL(data, &of); err != nil {
		return err
	}
	a := krlAuthority{key: of.Authority, ids: map[string]bool{}}
	if err := readKRLSections(of.Sections, a.readSection); err != nil {
		return err
	}
	l.certs = append(l.certs, a)
	return nil
}

func (a *krlAuthority) readSection(s *krlSection) error {
	switch s.Kind {
	case krlSerials:
		if len(s.Body)%8 != 0 {
			return errKRLShort
		}
		for serial := range slices.Chunk(s.Body, 8) {
			one := binary.BigEndian.Uint64(serial)
			a.serials = append(a.serials, func(n uint64) bool { return n == one })
		}
	case krlSerialRange:
		var of struct{ First, Last uint64 }
		if err := unmarshalKRL(s.Body, &of); err != nil {
			return err
		}
		a.serials = append(a.serials, func(n uint64) bool { return n >= of.First && n <= of.Last })
	case krlSerialBitmap:
		var of struct {
			Offset uint64
			Bits   []byte
		}
		if err := unmarshalKRL(s.Body, &of); err != nil {
			return err
		}
		if len(of.Bits) > maxKRLBitmapLength {
			return errors.New("the key revocation list has a bitmap that is too long")
		}
		bits := new(big.Int).SetBytes(of.Bits)
		a.serials = append(a.serials, func(n uint64) bool {
			return n >= of.Offset && n-of.Offset < uint64(bits.BitLen()) && bits.Bit(int(n-of.Offset)) == 1
		})
	case krlKeyIDs:
		return readKRLStrings(s.Body, a.ids)
	case krlCertExtension:
		return checkKRLExtension(s.Body)
	default:
		return fmt.Errorf("the key revocation list has a section %#x of certificates, which tunctl does not support", s.Kind)
	}
	return nil
}
