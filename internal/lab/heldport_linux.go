package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// holdPort takes a free port of the loopback interface without listening on it. While the
// cluster does not listen there, whoever connects is refused, and no other program is
// given the port.
func holdPort() (addr string, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	// Listening on a port that another socket holds is allowed if both say so; Go's
	// listeners do.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return "", nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", nil, os.NewSyscallError("bind", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return "", nil, os.NewSyscallError("getsockname", err)
	}
	local, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return "", nil, fmt.Errorf("a socket of the loopback interface has the address %v", name)
	}
	return fmt.Sprintf("127.0.0.1:%d", local.Port), func() { _ = unix.Close(fd) }, nil
}
