package openssh

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestAnotherUsersControlSocketIsNotUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to listen as another user")
	}
	dir, err := os.MkdirTemp("", "ssh-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	listener := listenAs(t, 65534, path)
	defer func() { _ = listener.Close() }()
	if _, err := dialControl(t.Context(), path); !errors.Is(err, errForeignMaster) {
		t.Errorf("dialled: %v", err)
	}
}

// listenAs listens as another user: the kernel notes who calls listen.
func listenAs(t *testing.T, uid int, path string) net.Listener {
	t.Helper()
	type result struct {
		net.Listener
		err error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread() // and no unlock: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			results <- result{nil, errno}
			return
		}
		l, err := net.Listen("unix", path)
		results <- result{l, err}
	}()
	r := <-results
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.Listener
}
