package desktop

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// peerCheck returns the test that a connection's other end belongs to this user.
// Under WSL the browser is a Windows program and its connections arrive through a
// relay of another user, so nothing can be told.
func peerCheck(env environ) func(local, remote netip.AddrPort) bool {
	if env.wsl() {
		return nil
	}
	uid := os.Getuid()
	return func(local, remote netip.AddrPort) bool {
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			f, err := os.Open(table)
			if err != nil {
				continue
			}
			owner, found := socketOwner(f, remote, local)
			_ = f.Close()
			if found {
				return owner == uid
			}
		}
		return false
	}
}

// socketOwner finds who owns the socket bound to local and connected to remote in
// a table with the form of /proc/net/tcp; see proc(5).
func socketOwner(table io.Reader, local, remote netip.AddrPort) (uid int, found bool) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 {
			continue
		}
		l, ok1 := procAddr(f[1])
		r, ok2 := procAddr(f[2])
		if !ok1 || !ok2 || l != local || r != remote {
			continue
		}
		uid, err := strconv.Atoi(f[7])
		return uid, err == nil
	}
	return 0, false
}

// procAddr reads "0100007F:1F90". The kernel prints each 32-bit word of the
// address in its own byte order.
func procAddr(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	if !ok || err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	p, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), ok && err == nil
}
