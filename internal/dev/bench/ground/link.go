//go:build linux

package ground

import (
	"context"
	"encoding/binary"
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
// Each link has its own pair.
const nearEnd, farEnd = "198.18.77.%d", "198.18.77.%d"

// Link is a network device whose packets come back late, with their addresses
// swapped: who connects to its far end reaches this computer, by the kernel's own TCP
// over a long way. A proxy would hide what Nagle's algorithm and delayed
// acknowledgements cost there.
type Link struct {
	far     string
	tun     *os.File
	port    uint16
	limit   int64 // bytes a second in each direction; 0: none
	wg      sync.WaitGroup
	packets [2]chan parcel // to the server, and from it
	busy    [2]time.Time   // until when the queued packets are sent
	silent  atomic.Bool
}

// Silence has the link lose all packets, or none.
func (l *Link) Silence(on bool) { l.silent.Store(on) }

// NewLink makes the device, for which one must be root. The number tells links apart. A
// limit is in bytes a second, for each direction; what is too much waits in a queue of
// queueSize, as in a home's router, and what does not fit there is lost. The port is the
// server's, which tells the directions apart.
func NewLink(ctx context.Context, number int, delay time.Duration, limit int64, port int) (*Link, error) {
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
	l := &Link{
		far: fmt.Sprintf(farEnd, 4*number+2), tun: os.NewFile(uintptr(fd), request.Name()),
		limit: limit, port: uint16(port), packets: [2]chan parcel{make(chan parcel, 1<<15), make(chan parcel, 1<<15)},
	}
	ip := exec.CommandContext(ctx, "ip", "-batch", "-")
	ip.Stdin = strings.NewReader(fmt.Sprintf("address add %s/30 dev %[2]s\nlink set %[2]s up\n", fmt.Sprintf(nearEnd, 4*number+1), request.Name()))
	if out, err := ip.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("ip: %w: %s", err, out), l.tun.Close())
	}
	l.wg.Go(func() { l.collect(delay) })
	for _, packets := range l.packets {
		l.wg.Go(func() { l.deliver(packets) })
	}
	return l, nil
}

func (l *Link) collect(delay time.Duration) {
	defer close(l.packets[0])
	defer close(l.packets[1])
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
		way := l.way(packet[:n])
		if sent, ok := l.queue(way, n); ok {
			l.packets[way] <- parcel{sent.Add(delay), packet[:n]}
		}
	}
}

// way is 0 for a packet to the server, 1 for one from it.
func (l *Link) way(packet []byte) int {
	header := int(packet[0]&0xf) * 4
	if len(packet) >= header+2 && binary.BigEndian.Uint16(packet[header:]) == l.port {
		return 1
	}
	return 0
}

// queue says when a packet has left the queue, or that there is no room for it.
func (l *Link) queue(way, size int) (sent time.Time, ok bool) {
	now := time.Now()
	if l.limit == 0 {
		return now, true
	}
	if l.busy[way].Before(now) {
		l.busy[way] = now
	}
	waiting := int64(l.busy[way].Sub(now).Seconds() * float64(l.limit))
	if waiting+int64(size) > queueSize {
		return now, false
	}
	l.busy[way] = l.busy[way].Add(time.Duration(size) * time.Second / time.Duration(l.limit))
	return l.busy[way], true
}

// Address is where the server is reached over the link.
func (l *Link) Address() string { return l.far }

func (l *Link) deliver(packets <-chan parcel) {
	for p := range packets {
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
