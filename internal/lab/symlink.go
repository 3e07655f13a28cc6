package lab

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/crypto/ssh"
)

// The packets of SFTP that a linkMaker knows (draft-ietf-secsh-filexfer-02, 3).
const (
	sftpSetstat = 9
	sftpSymlink = 20
)

// maxSymlinkPacket is more than two paths need.
const maxSymlinkPacket = 1 << 16

// linkMaker reads the packets of an SFTP client. It makes the symbolic links itself, with the text
// that the client gave: the server would make a relative one absolute, from the home.
type linkMaker struct {
	io.ReadWriteCloser
	home    string
	waiting []byte // of the packet, has been read here
	left    int    // of the packet, is still to be read
}

func (l *linkMaker) Read(p []byte) (int, error) {
	if len(l.waiting) == 0 && l.left == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	if len(l.waiting) > 0 {
		n := copy(p, l.waiting)
		l.waiting = l.waiting[n:]
		return n, nil
	}
	n, err := l.ReadWriteCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// next reads the head of a packet, which is its length and type, and the whole of one that makes a link.
func (l *linkMaker) next() error {
	head := make([]byte, 5)
	if _, err := io.ReadFull(l.ReadWriteCloser, head); err != nil {
		return err
	}
	l.waiting, l.left = head, max(0, int(binary.BigEndian.Uint32(head))-1)
	if head[4] != sftpSymlink || l.left > maxSymlinkPacket {
		return nil
	}
	body := make([]byte, l.left)
	if _, err := io.ReadFull(l.ReadWriteCloser, body); err != nil {
		return err
	}
	l.waiting, l.left = slices.Concat(head, body), 0
	var link struct {
		ID           uint32
		Target, Path string
	}
	if ssh.Unmarshal(body, &link) != nil {
		return nil //nolint:nilerr // the server says what is wrong
	}
	if os.Symlink(filepath.FromSlash(link.Target), absIn(l.home, filepath.FromSlash(link.Path))) != nil {
		return nil //nolint:nilerr // the server fails in the same way, and says why
	}
	// It is there; a change of none of its attributes has the same answer.
	body = ssh.Marshal(struct {
		ID    uint32
		Path  string
		Flags uint32
	}{link.ID, l.home, 0})
	l.waiting = append(binary.BigEndian.AppendUint32(nil, uint32(1+len(body))), append([]byte{sftpSetstat}, body...)...)
	return nil
}
