package transfer

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pkg/sftp"
)

// ownerOnly writes to a file server and makes each new file for its owner alone. The
// SFTP library sends no mode with a new file, and the server would use its umask: who
// opened the file before its mode was set could read what is written later.
type ownerOnly struct {
	io.WriteCloser
	left int // of the current packet
}

// The numbers of draft-ietf-secsh-filexfer-02.
const (
	sftpOpen            = 3
	sftpCreate          = 0x08 // a flag of open
	sftpAttrPermissions = 0x04
)

// Write changes packets that create a file. The library writes each packet from its
// beginning. It does not say by its errors that a write has failed, so this does.
func (w *ownerOnly) Write(p []byte) (int, error) {
	begins := w.left == 0 && len(p) >= 4
	if begins {
		w.left = 4 + int(binary.BigEndian.Uint32(p))
	}
	w.left = max(0, w.left-len(p))
	q := p
	if begins && createsFile(p) {
		const mode = 0o600
		q = binary.BigEndian.AppendUint32(nil, uint32(len(p)))
		q = append(q, p[4:len(p)-4]...)
		q = binary.BigEndian.AppendUint32(q, sftpAttrPermissions)
		q = binary.BigEndian.AppendUint32(q, mode)
	}
	if n, err := w.WriteCloser.Write(q); err != nil {
		return min(n, len(p)), fmt.Errorf("%w: %w", sftp.ErrSSHFxConnectionLost, err)
	}
	return len(p), nil
}

// createsFile reports whether a packet creates a file without a mode: length, type, id,
// path, flags, and no attributes.
func createsFile(p []byte) bool {
	const before = 4 + 1 + 4
	if len(p) < before+4 || len(p) != 4+int(binary.BigEndian.Uint32(p)) || p[4] != sftpOpen {
		return false
	}
	rest := p[before:]
	n := int(binary.BigEndian.Uint32(rest))
	if len(rest) != 4+n+4+4 {
		return false
	}
	flags, attrs := binary.BigEndian.Uint32(rest[4+n:]), binary.BigEndian.Uint32(rest[4+n+4:])
	return flags&sftpCreate != 0 && attrs == 0
}
