package real

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are what a part of the lab has for itself.
type namespaces uintptr

const (
	newNetwork namespaces = unix.CLONE_NEWNET
	newNode    namespaces = unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
)

// command is this program again, as a part of the lab in namespaces of its own.
func command(ns namespaces, role, dir string, args ...string) *exec.Cmd {
	program, err := os.Executable()
	return &exec.Cmd{
		Path: program,
		Args: append([]string{roleName, role, dir}, args...),
		Env:  cleanEnv,
		Dir:  "/",
		Err:  err,
		// A session of its own: the terminal's Ctrl-C is for the tests.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: uintptr(ns)},
	}
}

// again is this program with the same arguments, in a network of its own. It ends with
// the thread that starts it.
func again() *exec.Cmd {
	program, err := os.Executable()
	return &exec.Cmd{
		Path: program, Args: os.Args, Err: err, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: uintptr(newNetwork), Pdeathsig: syscall.SIGKILL},
	}
}

func makeFIFO(path string) error { return unix.Mkfifo(path, 0o600) }

func ownedByRoot(dir string) bool {
	var s unix.Stat_t
	return unix.Lstat(dir, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR && s.Uid == 0
}

// lock waits until this process alone has the folder.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
