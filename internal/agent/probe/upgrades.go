package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/tunnel/forward"
)

const (
	// insideTimeout is how long a page that is about to be ready, and a client while the way is not
	// proven, waits for a connection from inside the job.
	insideTimeout = 5 * time.Second
	// resumeTimeout is how long a client waits where there was one before: what holds the connections
	// inside the job may be reconnecting, and a client on another way stays there. It leaves a
	// forward's dial the time for that one.
	resumeTimeout, resumeRetry = 20 * time.Second, 250 * time.Millisecond
	// insideStart is how long the first one may take; the page does not wait for all of it.
	insideStart = time.Minute
	// insideRest is how long clients do not wait after one could not be opened.
	insideRest = time.Minute
)

// Upgrades dials for the clients of a page that ask for another protocol, such as WebSocket.
// From inside the job their connections outlive the one to the host; where that does not
// work they go the way of the page.
type Upgrades struct {
	node    Node
	page    api.Endpoint   // as the other clients reach it
	direct  forward.Dialer // how they do
	choices []api.Endpoint // the page as the node may dial it
	log     *slog.Logger
	proven  *search[api.Endpoint] // of the choices, the one that answered
}

// upgrades are those of a page that was announced as ep and answers over r; nil: TLS shows
// no upgrade, and what runs on the host itself has no job to go through. Clients of a new page
// find the way open. A page that answers again has the ones it had.
func (p *Prober) upgrades(ctx context.Context, t *Target, ep api.Endpoint, r Route) *Upgrades {
	if ep.Scheme != "http" || t.Node == "" || p.Job.SameAsHost(t.Node) {
		return nil
	}
	node, err := p.Job.Node(ctx, t.Node)
	if err != nil {
		return nil // the run is over
	}
	if u := p.last; u != nil && u.node == node && u.page == r.Endpoint {
		return u
	}
	u := &Upgrades{node: node, page: r.Endpoint, direct: r.Target().Dialer, log: p.Log.With("session", p.Session), proven: newSearch[api.Endpoint](insideRest)}
	hosts := addressesOnNode(ep.Host)
	if ep.Socket != "" {
		hosts = []string{""}
	}
	for _, host := range hosts {
		ep.Host = host
		u.choices = append(u.choices, ep)
	}
	p.last = u
	u.prepare(ctx)
	return u
}

// DialUpgrade implements forward.UpgradeDialer. A request that may not reach the server twice, which
// no WebSocket begins with, goes the way of the page: one that timed out inside the job may have
// arrived.
func (u *Upgrades) DialUpgrade(ctx context.Context, network, address string, request []byte) (net.Conn, error) {
	direct := forward.DirectUpgrades{Dialer: u.direct}
	if !forward.Repeatable(request) {
		return direct.DialUpgrade(ctx, network, address, request)
	}
	conn, err := u.dialInside(ctx, network, request)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if conn, err = direct.DialUpgrade(ctx, network, address, request); err != nil {
		return nil, err
	}
	return forward.DirectConn{Conn: conn}, nil
}

func (u *Upgrades) dialInside(ctx context.Context, network string, request []byte) (net.Conn, error) {
	finding, cancel := context.WithTimeout(ctx, insideTimeout)
	defer cancel()
	ep, err := u.find(finding)
	if err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	for {
		conn, err := u.node.DialInside(ctx, network, ep.Address(), request)
		if errors.Is(err, api.ErrDown) && ctxtime.Sleep(ctx, resumeRetry) == nil {
			continue
		}
		u.settle(ep, err)
		return conn, err
	}
}

// prepare opens the way from inside the job before the first client needs it. A way that takes
// longer is used once it is open.
func (u *Upgrades) prepare(ctx context.Context) {
	found := make(chan struct{})
	go func() {
		defer close(found)
		starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), insideStart)
		defer cancel()
		_, _ = u.find(starting) // Failure has the error
	}()
	wait := time.NewTimer(insideTimeout)
	defer wait.Stop()
	select {
	case <-found:
	case <-wait.C:
		u.settle(nil, context.DeadlineExceeded)
	case <-ctx.Done():
	}
}

// Failure is why connections end with the one to the host; nil: they outlive it.
func (u *Upgrades) Failure() error {
	u.proven.mu.Lock()
	defer u.proven.mu.Unlock()
	return u.proven.failure
}

// find returns the page as the node dials it. By a wrong address the requests would be sent to
// another server, so each is probed first. After a failure callers get its error for a while.
func (u *Upgrades) find(ctx context.Context) (*api.Endpoint, error) {
	return u.proven.find(ctx, func() (*api.Endpoint, error) {
		var failures []error
		for i, ep := range u.choices {
			by := Route{Endpoint: ep, Dialer: insideDialer{u.node}}
			if i > 0 {
				by.guessed = u.node
			}
			err := by.probe(ctx)
			if err == nil || isIncomplete(err) {
				u.settle(&ep, nil)
				return &ep, nil
			}
			if failures = append(failures, err); ctx.Err() != nil {
				break
			}
		}
		err := errors.Join(failures...)
		u.settle(nil, err)
		return nil, err
	})
}

// settle takes in what came of an attempt. A host that is not connected says nothing about
// the way inside, nor does a slow moment of one that is proven.
func (u *Upgrades) settle(ep *api.Endpoint, err error) {
	switch {
	case errors.Is(err, api.ErrDown), errors.Is(err, context.Canceled), ep != nil && errors.Is(err, context.DeadlineExceeded):
		return
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("nothing inside the job connected within %s", api.DurationText(insideTimeout))
	}
	if err != nil && u.Failure() == nil {
		u.log.Info("websockets of the page end with the connection", "err", err)
	}
	u.proven.settle(ep, err)
}

// insideDialer dials from inside the job.
type insideDialer struct{ node Node }

// Dial implements forward.Dialer.
func (d insideDialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.node.DialInside(ctx, network, address, nil)
}
