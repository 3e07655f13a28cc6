package peer

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// SameUser reports whether the program at the other end of a unix socket belongs to this
// user. Unlike [Check] it refuses root.
func SameUser(conn net.Conn) bool {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Xucred
	err = raw.Control(func(fd uintptr) {
		cred, _ = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	return err == nil && cred != nil && int(cred.Uid) == os.Getuid()
}
