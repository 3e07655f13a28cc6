package step

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// Kernel is the kernel of a notebook server that a page is connected to. The relay keeps the server's side
// while a cell of the page runs, also without the page.
type Kernel struct {
	ID      string `json:"id"`
	Session string `json:"session"`          // the page's own word for itself
	Origin  string `json:"origin,omitempty"` // of the page
	Name    string `json:"name,omitempty"`   // what its output is collected for
	Collect bool   `json:"collect"`          // what cells print without their page
	Accept  string `json:"accept,omitempty"` // what answers the page's key (RFC 6455, section 4.2.2): it may continue another connection
	// Journal is the name of the file in which this computer notes what the page has taken: what the relay
	// was told of that may have been lost with the agent before.
	Journal string `json:"journal,omitempty"`
	Before  string `json:"before,omitempty"` // the journal of the connection that a page continues
	Taken   uint64 `json:"taken,omitempty"`  // by that
}

// pageKey is what makes a page the same one.
type pageKey struct{ kernel, session, origin string }

func (k *Kernel) page() pageKey { return pageKey{k.ID, k.Session, k.Origin} }

// Cell is a request of a page to run code. One without an ID only tells the notebook.
type Cell struct {
	ID       string `json:"id,omitempty"`
	Code     string `json:"code,omitempty"`
	Cell     string `json:"cell,omitempty"` // its id in the notebook, where the page tells it
	Notebook string `json:"notebook,omitempty"`
}

// ErrNotKept is the error of [Conn.Continue] if the relay keeps nothing for the page.
var ErrNotKept = errors.New("nothing is kept for this page")

// KernelConn is a page's connection to its kernel. Closing it leaves the server's side to the relay while a cell
// runs.
type KernelConn struct {
	net.Conn
	ch      *channel
	journal *os.File // nil: there is none
}

// newKernelConn makes a connection of a channel, with a journal of its own.
func (c *Conn) newKernelConn(conn *netConn, k Kernel) *KernelConn {
	c.mu.Lock()
	c.known[k.page()] = append(c.known[k.page()], k.Journal)
	c.mu.Unlock()
	made := &KernelConn{Conn: conn, ch: conn.channel}
	if c.journals != "" {
		made.journal, _ = os.OpenFile(filepath.Join(c.journals, k.Journal), os.O_WRONLY|os.O_CREATE, 0o600) // on a full disk there is none
	}
	return made
}

// taken is what a page had taken by its journal.
func (c *Conn) taken(journal string) uint64 {
	b, err := os.ReadFile(filepath.Join(c.journals, filepath.Base(journal)))
	if err != nil || len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Close leaves the server's side to the relay while a cell runs.
func (k *KernelConn) Close() error {
	_ = k.journal.Close()
	return k.Conn.Close()
}

// DialKernel connects a page to its kernel as [Conn.Dial] does.
func (c *Conn) DialKernel(ctx context.Context, network, address string, first []byte, k Kernel) (*KernelConn, error) {
	k.Journal = rand.Text()
	conn, err := c.dial(ctx, network, address, first, &k)
	if err != nil {
		return nil, err
	}
	return c.newKernelConn(conn, k), nil
}

// Continue connects a page to the kernel that the relay keeps for it. What can be read is the server's answer to
// the request with which the page connected first, but for this page's key, and then what the page has not taken.
func (c *Conn) Continue(ctx context.Context, k Kernel) (*KernelConn, error) {
	k.Journal = rand.Text()
	for {
		c.mu.Lock()
		journals := c.known[k.page()]
		if len(journals) == 0 {
			c.mu.Unlock()
			return nil, ErrNotKept
		}
		k.Before = journals[len(journals)-1] // if it is kept or not, it is not asked for again
		c.known[k.page()] = journals[:len(journals)-1]
		c.mu.Unlock()
		k.Taken = c.taken(k.Before)
		ch, err := c.open(ctx, false, openRequest{Kind: "kernel", Kernel: &k}, nil)
		if err == nil {
			return c.newKernelConn(&netConn{ch, &net.UnixAddr{Net: "kernel", Name: k.ID}}, k), nil
		}
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
			c.mu.Lock()
			c.known[k.page()] = append(c.known[k.page()], k.Before, k.Journal) // whether the relay got it is not known
			c.mu.Unlock()
			return nil, err
		}
	}
}

// Keeps reports whether the relay may keep something for the page.
func (c *Conn) Keeps(k Kernel) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known[k.page()]) > 0
}

// Cells are those whose page is gone, as the relay last told.
func (c *Conn) Cells() api.Cells {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cells
}

// TellsCells reports whether the relay has told of cells: one that was taken over does so a moment later.
func (c *Conn) TellsCells() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tellsCells
}

func (c *Conn) setCellsLocked(payload []byte) error {
	c.cells, c.tellsCells = api.Cells{}, true
	if json.Unmarshal(payload, &c.cells) != nil {
		return errBroken
	}
	if c.told != nil {
		go c.told()
	}
	return nil
}

// Run tells the relay of a cell, before its request is written.
func (k *KernelConn) Run(cell Cell) {
	const mostCode = 64 << 10
	cell.Code = cell.Code[:min(len(cell.Code), mostCode)]
	if payload, err := json.Marshal(cell); err == nil && len(payload) <= frameLimit {
		k.ch.tell(kindCell, payload)
	}
}

// Done tells the relay that the page has the end of a cell; "": of all.
func (k *KernelConn) Done(id string) { k.ch.tell(kindDone, []byte(id)) }

// Taken tells the relay up to where the page has the server's frames.
func (k *KernelConn) Taken(n uint64) {
	b := binary.BigEndian.AppendUint64(nil, n)
	_, _ = k.journal.WriteAt(b, 0) // without one, the relay alone knows
	k.ch.tell(kindTaken, b)
}
