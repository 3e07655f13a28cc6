package real

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// runDelay carries packets between a TUN device on the laptop and one on the
// switch.
func runDelay(dir string, args []string) error {
	late, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	loss, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	life, err := lifeline(dir)
	if err != nil {
		return err
	}
	go endWith(life)
	r, err := readRecord(dir)
	if err != nil {
		return err
	}
	near, err := openTUN(r.delayed())
	if err != nil {
		return err
	}
	far, err := openTUNIn(r.Keeper.PID, slowUplink)
	if err != nil {
		return err
	}
	if err := sayReady(); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- passOn(far, near, late, loss) }()
	go func() { ended <- passOn(near, far, late, loss) }()
	return <-ended
}

// openTUNIn makes a TUN device in the network of another process.
func openTUNIn(pid int, name string) (*os.File, error) {
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = network.Close() }()
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result)
	go func() {
		// The thread changes its network and is not used again: it ends locked.
		runtime.LockOSThread()
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			opened <- result{err: err}
			return
		}
		f, err := openTUN(name)
		opened <- result{f, err}
	}()
	r := <-opened
	return r.file, r.err
}

func openTUN(name string) (*os.File, error) {
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s, without which there are no delays: %w", device, err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make device %q: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
