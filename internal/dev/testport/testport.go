// Package testport gives tests ports to listen on that no other test on this computer is given meanwhile, whichever
// process or run it belongs to, and that no program uses.
package testport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"tunctl/internal/dev/wait"
	"tunctl/internal/freeport"
)

// The ports are below those of practice pages, of forwards that may take any, and of outgoing connections. A block
// has the ports that it hands out, and those that a forward tries after the last of them.
const (
	first     = 10240
	blockSize = 32
	blocks    = 300
	handedOut = 11
)

// Block is a range of ports. A UDP socket at its first port is the lock: it is gone with its process, and takes no
// TCP port.
type Block struct {
	lock      net.PacketConn
	next, end int
}

// Reserve waits for a block that nobody has.
func Reserve(ctx context.Context) (*Block, error) {
	ctx, cancel := context.WithTimeout(ctx, wait.Limit)
	defer cancel()
	for ctx.Err() == nil {
		for _, n := range rand.Perm(blocks) { //nolint:gosec // a port is no secret
			start := first + n*blockSize
			lock, err := new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(start)))
			if err == nil {
				return &Block{lock: lock, next: start, end: start + handedOut}, nil
			}
		}
		time.Sleep(time.Second)
	}
	return nil, errors.New("every port for tests is taken")
}

// Take returns the next port of the block that no program uses, on any address.
func (b *Block) Take(ctx context.Context) (int, error) {
	for ; b.next < b.end; b.next++ {
		if isFree(ctx, b.next) {
			b.next++
			return b.next - 1, nil
		}
	}
	return 0, errors.New("the block has no more ports")
}

func isFree(ctx context.Context, port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil || freeport.Close(l) != nil {
			return false
		}
	}
	return true
}

// Close lets others have the block.
func (b *Block) Close() { _ = b.lock.Close() }

// Free returns a port that is the test's until it ends.
func Free(t testing.TB) int {
	t.Helper()
	b, err := Reserve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	port, err := b.Take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
