package real

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Laptop is what programs on the laptop see besides the network: a small disk of
// their own at one folder, and a name service. Both are in a mount namespace, which
// lives as long as a process that holds it, and that one as long as the test.
type Laptop struct {
	lab    *Lab
	holder int
	disk   string
	names  *nameService
}

// holdLaptop waits, with the mounts made, until its standard input ends.
const holdLaptop = `set -e
mount -t tmpfs -o size=1m,mode=700 laptop "$1"
mount --bind "$2" /etc/resolv.conf
echo ` + ready + `
exec cat >/dev/null
`

// Laptop gives programs a disk of a megabyte at a folder, and makes every node
// known as NODE.lab.test to them.
func (l *Lab) Laptop(disk string) *Laptop {
	l.t.Helper()
	names, err := startNameService(l.t.Context(), l.c.plan)
	l.must(err)
	l.undo(names.close)
	resolv := filepath.Join(l.t.TempDir(), "resolv.conf")
	l.must(os.WriteFile(resolv, []byte(names.resolvConf()), 0o644))
	l.must(os.MkdirAll(disk, 0o700))

	cmd := exec.CommandContext(context.Background(), "unshare", "--mount", "--propagation", "private", "sh", "-c", holdLaptop, "sh", disk, resolv)
	in, err := cmd.StdinPipe()
	l.must(err)
	out, err := cmd.StdoutPipe()
	l.must(err)
	l.must(cmd.Start())
	l.undo(func() error { return endHolder(cmd, in) })
	l.must(awaitReady(out))
	return &Laptop{lab: l, holder: cmd.Process.Pid, disk: disk, names: names}
}

func endHolder(cmd *exec.Cmd, in io.Closer) error {
	_ = in.Close()
	return cmd.Wait()
}

// Command is a program on this laptop.
func (x *Laptop) Command(ctx context.Context, argv ...string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(x.holder), "-m", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// FillDisk leaves no byte on the disk.
func (x *Laptop) FillDisk() {
	x.lab.t.Helper()
	x.shell(`cat /dev/zero >"$1/filler" 2>/dev/null || true`)
}

// FreeDisk undoes FillDisk.
func (x *Laptop) FreeDisk() {
	x.lab.t.Helper()
	x.shell(`rm -f "$1/filler"`)
}

// LockDisk makes the disk read-only. Files that are open stay as they are: the
// kernel would refuse otherwise.
func (x *Laptop) LockDisk() {
	x.lab.t.Helper()
	x.shell(`mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"`)
}

// UnlockDisk undoes LockDisk.
func (x *Laptop) UnlockDisk() {
	x.lab.t.Helper()
	x.shell(`umount "$1"`)
}

// DiskFile reads a file of the disk.
func (x *Laptop) DiskFile(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(fmt.Sprintf("/proc/%d/root", x.holder), x.disk, name))
}

// SilenceNames makes the name service take questions and say nothing.
func (x *Laptop) SilenceNames() { x.names.silent.Store(true) }

// AnswerNames undoes SilenceNames.
func (x *Laptop) AnswerNames() { x.names.silent.Store(false) }

func (x *Laptop) shell(script string) {
	x.lab.t.Helper()
	_, err := run("", "nsenter", "-t", strconv.Itoa(x.holder), "-m", "--", "sh", "-c", script, "sh", x.disk)
	x.lab.must(err)
}
