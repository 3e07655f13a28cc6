package kernel

import (
	"net"
	"testing"

	"tunctl/tunnel/step"
)

// leavingConn has its page leave while it reads.
type leavingConn struct {
	net.Conn
	page *Page
	has  []byte
}

func (c *leavingConn) Read(b []byte) (n int, err error) {
	if len(c.has) == 0 {
		return 0, net.ErrClosed
	}
	if err := c.page.CloseWrite(); err != nil {
		return 0, err
	}
	n, c.has = copy(b, c.has), nil
	return n, nil
}

func (c *leavingConn) Close() error { return nil }

// TestPageLeavingDuringRead: the relay was not told that the page has this, so that the next page gets it.
func TestPageLeavingDuringRead(t *testing.T) {
	c := &leavingConn{has: []byte("frames")}
	c.page = &Page{KernelConn: &step.KernelConn{Conn: c}}
	if n, err := c.page.Read(make([]byte, 100)); n > 0 || err == nil {
		t.Errorf("the page got %d bytes: %v", n, err)
	}
}
