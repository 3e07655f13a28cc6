package tunnel

import (
	"crypto/sha1" //nolint:gosec // the format has SHA-1 fingerprints
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"

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
	keys   map[string]bool // in wire format
	sha1   map[string]bool
	sha256 map[string]bool
	certs  []krlAuthority
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
	return l.keys[string(blob)] || l.sha1[string(old[:])] || l.sha256[string(sum[:])]
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

var errKRLShort = errors.New("the key revocation list is truncated")

// krlReader parses a list. After the end it returns zero values and sets err.
type krlReader struct {
	rest []byte
	err  error
}

func (r *krlReader) more() bool { return r.err == nil && len(r.rest) > 0 }

func (r *krlReader) bytes(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.err = errKRLShort
	}
	if r.err != nil {
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *krlReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *krlReader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *krlReader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *krlReader) string() []byte {
	n := r.uint32()
	if uint64(n) > uint64(len(r.rest)) {
		r.bytes(len(r.rest) + 1) // fails
		return nil
	}
	return r.bytes(int(n))
}

// set reads the rest as strings.
func (r *krlReader) set(into map[string]bool) {
	for r.more() {
		if s := r.string(); r.err == nil {
			into[string(s)] = true
		}
	}
}

// extension refuses a critical extension, since none is supported.
func (r *krlReader) extension() {
	name := r.string()
	if critical := r.byte() != 0; critical && r.err == nil {
		r.err = fmt.Errorf("the key revocation list needs %q, which tunctl does not support", name)
	}
}

// parseKRL reads a list. It checks no signatures, and neither does ssh: who can write
// the file can also name another.
func parseKRL(content []byte) (*krl, error) {
	r := &krlReader{rest: content}
	r.bytes(len(krlMagic))
	if version := r.uint32(); r.err == nil && version != krlFormatVersion {
		return nil, fmt.Errorf("the key revocation list has the format %d, which tunctl does not support", version)
	}
	r.bytes(3 * 8) // number, date, flags
	r.string()     // reserved
	r.string()     // comment
	l := &krl{keys: map[string]bool{}, sha1: map[string]bool{}, sha256: map[string]bool{}}
	for r.more() {
		kind := r.byte()
		section := &krlReader{rest: r.string(), err: r.err}
		switch kind {
		case krlCertificates:
			l.certs = append(l.certs, parseKRLCertificates(section))
		case krlKeys:
			section.set(l.keys)
		case krlSHA1:
			section.set(l.sha1)
		case krlSHA256:
			section.set(l.sha256)
		case krlExtension:
			section.extension()
		case krlSignature:
			r.string() // section is the key; this is the signature
		default:
			return nil, fmt.Errorf("the key revocation list has a section %d, which tunctl does not support", kind)
		}
		if r.err == nil {
			r.err = section.err
		}
	}
	return l, r.err
}

func parseKRLCertificates(r *krlReader) krlAuthority {
	a := krlAuthority{key: string(r.string()), ids: map[string]bool{}}
	r.string() // reserved
	for r.more() {
		kind := r.byte()
		section := &krlReader{rest: r.string(), err: r.err}
		switch kind {
		case krlSerials:
			for section.more() {
				one := section.uint64()
				a.serials = append(a.serials, func(n uint64) bool { return n == one })
			}
		case krlSerialRange:
			first, last := section.uint64(), section.uint64()
			a.serials = append(a.serials, func(n uint64) bool { return n >= first && n <= last })
		case krlSerialBitmap:
			a.serials = append(a.serials, section.bitmap())
		case krlKeyIDs:
			section.set(a.ids)
		case krlCertExtension:
			section.extension()
		default:
			section.err = fmt.Errorf("the key revocation list has a section %#x of certificates, which tunctl does not support", kind)
		}
		if r.err == nil {
			r.err = section.err
		}
	}
	return a
}

// bitmap reads serial numbers as bits above an offset.
func (r *krlReader) bitmap() func(uint64) bool {
	offset, text := r.uint64(), r.string()
	if len(text) > maxKRLBitmapLength && r.err == nil {
		r.err = errors.New("the key revocation list has a bitmap that is too long")
	}
	bits := new(big.Int).SetBytes(text)
	return func(n uint64) bool {
		return n >= offset && n-offset < uint64(bits.BitLen()) && bits.Bit(int(n-offset)) == 1
	}
}
