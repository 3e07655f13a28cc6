package main

import (
	"context"
	"errors"
	"io"
	"os/user"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// fileDialer opens streams to a host's file server, to that of its data-transfer node,
// which has the same files, or to one inside a job.
type fileDialer struct {
	*invocation
	transfer string // the data-transfer node; "": none

	mu sync.Mutex
	to api.StreamRequest // where streams go
}

// newFileDialer reads HOST or SESSION. --via names a node outside the job.
func newFileDialer(ctx context.Context, inv *invocation, name string) (*fileDialer, error) {
	via := inv.String("via")
	find := inv.destination
	if via != "" {
		find = inv.loginNode
	}
	to, err := find(ctx, name)
	if err != nil {
		if to.Session != "" {
			err = withViaHint(err)
		}
		return nil, err
	}
	to.Kind = api.StreamSFTP
	d := &fileDialer{invocation: inv, to: to}
	if to.Session == "" && to.Node == "" && via != viaLogin {
		d.transfer = transferNode(ctx, inv.Terminal, inv.paths, to.Host)
	}
	return d, nil
}

// withViaHint adds to the error of a session without a running job how its files can be
// copied all the same.
func withViaHint(err error) error {
	if !api.HasCode(err, api.CodeNotReady, api.CodeJobEnded) {
		return err
	}
	return api.ReplaceHint(err, "%s; `tunctl cp --via login` copies through the login node", hintOf(err))
}

func (d *fileDialer) request() api.StreamRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.to
}

func (d *fileDialer) dial(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error) {
	s, err := d.open(ctx, again, spare)
	if d.request().Session != "" {
		err = withViaHint(err)
	}
	return s, err
}

func (d *fileDialer) open(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error) {
	req := d.request()
	req.Again, req.Spare = again, spare
	switch {
	case spare:
		return d.client.Stream(ctx, req)
	case again:
		return d.dialAgain(ctx, req)
	case d.transfer != "":
		return d.dialTransfer(ctx, req)
	}
	return openStream(ctx, d.Terminal, d.client, req)
}

// dialTransfer opens the first stream, which decides where all of them go: to the
// data-transfer node, or to the host itself if that node cannot be used.
func (d *fileDialer) dialTransfer(ctx context.Context, req api.StreamRequest) (io.ReadWriteCloser, error) {
	through := req
	through.Host = d.transfer
	s, err := openStream(ctx, d.Terminal, d.client, through)
	if err == nil {
		d.mu.Lock()
		d.to.Host = d.transfer
		d.mu.Unlock()
		if !d.Bool("quiet") {
			d.Say("tunctl: copying through the data-transfer node %s", d.transfer)
		}
		return s, nil
	}
	if asked := api.HasCode(err, api.CodeNeedsPerson) && d.Interactive; ctx.Err() != nil || asked || d.String("via") == viaTransfer {
		return nil, err
	}
	d.Say("tunctl: cannot use the data-transfer node %s (%v); copying through %s instead", d.transfer, err, req.Host)
	_ = d.client.Logout(ctx, d.transfer) // else the agent would keep trying; it has no host of a name that does not resolve
	d.transfer = ""
	return openStream(ctx, d.Terminal, d.client, req)
}

// dialAgain waits for a host whose connection was lost.
func (d *fileDialer) dialAgain(ctx context.Context, req api.StreamRequest) (io.ReadWriteCloser, error) {
	d.Say("tunctl: lost the connection to %s; waiting for it", req.Host)
	for {
		s, err := d.client.Stream(ctx, req)
		switch {
		case err == nil:
			d.Say("tunctl: reconnected to %s", req.Host)
			return s, nil
		case api.HasCode(err, api.CodeTimeout) && ctx.Err() == nil:
			// The agent keeps trying.
		case api.HasCode(err, api.CodeNeedsPerson) && d.Interactive:
			req.Again = false
			return openStream(ctx, d.Terminal, d.client, req)
		case api.HasCode(err, api.CodeNeedsPerson):
			return nil, api.ReplaceHint(err, "`tunctl login %s`, then rerun with --resume", req.Host)
		default:
			return nil, err
		}
	}
}

// transferNode is the data-transfer node of a host as an ssh destination; "" where it
// has none. The user is that of the host, unless the config or the person's ssh config sets
// another.
func transferNode(ctx context.Context, t *term.Terminal, p home.Paths, host string) string {
	cfg := readConfig(p)
	node := loadSites(t, p).TransferNode(cfg.Host(host))
	if node == "" || strings.Contains(node, "@") {
		return node
	}
	read := resolver(p, cfg)
	there, err1 := read.Settings(ctx, node)
	login, err2 := read.Settings(ctx, host)
	me, err3 := user.Current()
	if errors.Join(err1, err2, err3) == nil && there.User == me.Username && there.User != login.User {
		return login.User + "@" + node
	}
	return node
}

// The values of --via.
const (
	viaLogin    = "login"
	viaTransfer = "transfer"
)
