//go:build linux

package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The two ends of a link, from the range that is set aside for measurements (RFC 2544).
const (
	nearEnd = "198.18.77.1"
	FarEnd  = "198.18.77.2"

	nearFickle = "198.18.77.5"
	FickleEnd  = "198.18.77.6"
)

// Link is a network device whose packets come back late, with their addresses
// swapped: who connects to its far end reaches this computer, by the kernel's own TCP
// over a long way. A proxy would hide what Nagle's algorithm and delayed
// acknowledgements cost there.
type Link struct {
	tun     *os.File
	wg      sync.WaitGroup
	packets chan parcel
	silent  atomic.Bool
}

// NewLink makes the device, for which one must be root.
func NewLink(ctx context.Context, delay time.Duration) (*Link, error) {
	return newLink(ctx, nearEnd, delay)
}

// NewFickleLink is another link, to FickleEnd, which can fall silent.
func NewFickleLink(ctx context.Context, delay time.Duration) (*Link, error) {
	return newLink(ctx, nearFickle, delay)
}

// Silence has the link lose all packets, or none.
func (l *Link) Silence(on bool) { l.silent.Store(on) }

func newLink(ctx context.Context, near string, delay time.Duration) (*Link, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq("tunbench%d")
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	l := &Link{tun: os.NewFile(uintptr(fd), request.Name()), packets: make(chan parcel, 1<<15)}
	ip := exec.CommandContext(ctx, "ip", "-batch", "-")
	ip.Stdin = strings.NewReader(fmt.Sprintf("address add %s/30 dev %[2]s\nlink set %[2]s up\n", near, request.Name()))
	if out, err := ip.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("ip: %w: %s", err, out), l.tun.Close())
	}
	l.wg.Go(func() { l.collect(delay) })
	l.wg.Go(l.deliver)
	return l, nil
}

func (l *Link) collect(delay time.Duration) {
	defer close(l.packets)
	for {
		packet := make([]byte, 1600)
		n, err := l.tun.Read(packet)
		if err != nil {
			return
		}
		if n < 20 || packet[0]>>4 != 4 || l.silent.Load() {
			continue
		}
		var address [4]byte // the sums of IP and TCP stay as they are
		copy(address[:], packet[12:16])
		copy(packet[12:16], packet[16:20])
		copy(packet[16:20], address[:])
		l.packets <- parcel{time.Now().Add(delay), packet[:n]}
	}
}

func (l *Link) deliver() {
	for p := range l.packets {
		time.Sleep(time.Until(p.due))
		_, _ = l.tun.Write(p.data) // a packet that is lost is sent again
	}
}

// Close removes the device.
func (l *Link) Close() {
	if l == nil {
		return
	}
	_ = l.tun.Close()
	l.wg.Wait()
}
