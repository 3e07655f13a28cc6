package probe

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/step"
)

// jobOnNode is a job whose page the login node reaches, too.
type jobOnNode struct {
	Job    // what is not asked
	inside func(ctx context.Context, address string) (net.Conn, error)
}

func (j *jobOnNode) SameAsHost(node string) bool                { return node == "login1" }
func (j *jobOnNode) Node(context.Context, string) (Node, error) { return j, nil }
func (j *jobOnNode) Limited() bool                              { return false }
func (j *jobOnNode) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("nobody asks for this")
}

func (j *jobOnNode) OpenChannel(context.Context, string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return nil, nil, errors.New("no command runs there")
}

func (j *jobOnNode) DialKernel(context.Context, string, string, []byte, step.Kernel, func() error) (*step.KernelConn, error) {
	return nil, step.ErrKept
}

func (j *jobOnNode) DialInside(ctx context.Context, _, address string, first []byte) (net.Conn, error) {
	conn, err := j.inside(ctx, address)
	if err == nil {
		_, err = conn.Write(first)
	}
	return conn, err
}

// dialerFunc is a forward.Dialer.
type dialerFunc func(ctx context.Context, address string) (net.Conn, error)

func (d dialerFunc) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	return d(ctx, address)
}

// server answers each connection, and keeps the addresses that were dialled.
type server struct{ dialled []string }

func (s *server) dial(_ context.Context, address string) (net.Conn, error) {
	s.dialled = append(s.dialled, address)
	here, there := net.Pipe()
	go func() {
		defer func() { _ = there.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
			_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}()
	return here, nil
}

// upgradesOf are those of a page at cn01:8888, and how long it took to have them.
func upgradesOf(t *testing.T, direct *server, inside func(context.Context, string) (net.Conn, error)) (u *Upgrades, took time.Duration) {
	t.Helper()
	p := New(Options{Job: &jobOnNode{inside: inside}, Log: slog.New(slog.DiscardHandler)})
	ep := api.Endpoint{Scheme: "http", Host: "cn01", Port: 8888}
	began := time.Now()
	u = p.upgrades(t.Context(), &Target{Node: "cn01"}, ep, Route{Endpoint: ep, Dialer: dialerFunc(direct.dial)})
	took = time.Since(began)
	if again := p.upgrades(t.Context(), &Target{Node: "cn01"}, ep, Route{Endpoint: ep, Dialer: dialerFunc(direct.dial)}); again != u {
		t.Error("a page that answers again has others")
	}
	return u, took
}

func upgrade(t *testing.T, u *Upgrades) (direct bool) {
	t.Helper()
	return send(t, u, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n")
}

func send(t *testing.T, u *Upgrades, request string) (direct bool) {
	t.Helper()
	conn, err := u.DialUpgrade(t.Context(), "tcp", "cn01:8888", []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	_, direct = conn.(forward.DirectConn)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Errorf("the request was answered %q, %v", line, err)
	}
	_ = conn.Close()
	return direct
}

func TestUpgrades(t *testing.T) {
	const slow = 6 * time.Second
	for name, tt := range map[string]struct {
		request string
		inside  func(context.Context) error // before it connects
		took    time.Duration
		direct  bool
		dialled string
	}{
		"wait for a relay that is slow": {inside: func(ctx context.Context) error { return ctxtime.Sleep(ctx, slow) }, took: slow, dialled: "inside"},
		"wait for a relay that reconnects": {inside: func() func(context.Context) error {
			again := 4
			return func(context.Context) error {
				if again--; again > 0 {
					return api.ErrDown
				}
				return nil
			}
		}(), took: 3 * resumeRetry, dialled: "inside"},
		"go the way of the page in the end": {inside: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, took: resumeTimeout, direct: true, dialled: "direct"},
		"send once what may not be repeated": {
			request: "POST / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
			inside:  func(ctx context.Context) error { return ctxtime.Sleep(ctx, slow) }, dialled: "direct",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var direct, inside server
				before := func(context.Context) error { return nil }
				u, _ := upgradesOf(t, &direct, func(ctx context.Context, address string) (net.Conn, error) {
					if err := before(ctx); err != nil {
						return nil, err
					}
					return inside.dial(ctx, address)
				})
				inside.dialled, before = nil, tt.inside
				began := time.Now()
				isDirect := send(t, u, cmp.Or(tt.request, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n"))
				took := time.Since(began)
				if want := map[string]int{tt.dialled: 1}; took != tt.took || isDirect != tt.direct || len(inside.dialled) != want["inside"] || len(direct.dialled) != want["direct"] {
					t.Errorf("after %v dialled inside %q, directly %q, direct %v", took, inside.dialled, direct.dialled, isDirect)
				}
				before = func(context.Context) error { return nil }
				if upgrade(t, u) || u.Failure() != nil {
					t.Errorf("the next one goes the way of the page: %v", u.Failure())
				}
			})
		})
	}
}

func TestAnUpgradeGoesThroughTheJobToTheAddressThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var direct, inside server
		u, _ := upgradesOf(t, &direct, func(ctx context.Context, address string) (net.Conn, error) {
			if address != "127.0.0.1:8888" {
				return nil, api.ErrRefused
			}
			return inside.dial(ctx, address)
		})
		upgrade(t, u)
		if want := []string{"127.0.0.1:8888", "127.0.0.1:8888"}; !slices.Equal(inside.dialled, want) || direct.dialled != nil || u.Failure() != nil {
			t.Errorf("dialled inside %q, directly %q, failure %v", inside.dialled, direct.dialled, u.Failure())
		}
	})
}

func TestUpgradesOfAPageWithATokenGoToNoGuessedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Log: slog.New(slog.DiscardHandler), Job: &jobOnNode{inside: func(ctx context.Context, address string) (net.Conn, error) {
			if address != "127.0.0.1:8888" {
				return nil, api.ErrRefused
			}
			return new(server).dial(ctx, address)
		}}})
		ep := api.Endpoint{Scheme: "http", Host: "cn01", Port: 8888, Token: api.NewSecret("SECRET")}
		if u := p.upgrades(t.Context(), &Target{Node: "cn01"}, ep, Route{Endpoint: ep}); !errors.Is(u.Failure(), errNotYours) {
			t.Errorf("failure %v", u.Failure())
		}
	})
}

func TestAnUpgradeGoesTheWayOfThePageUntilTheJobHasOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var direct, inside server
		started := make(chan struct{})
		u, took := upgradesOf(t, &direct, func(ctx context.Context, address string) (net.Conn, error) {
			<-started
			return inside.dial(ctx, address)
		})
		if took != insideTimeout || u.Failure() == nil {
			t.Errorf("the page waited for %v, failure %v", took, u.Failure())
		}
		began := time.Now()
		upgrade(t, u)
		if time.Since(began) > 0 || len(direct.dialled) != 1 {
			t.Errorf("after %v dialled directly %q", time.Since(began), direct.dialled)
		}
		close(started)
		synctest.Wait()
		upgrade(t, u)
		if len(direct.dialled) != 1 || len(inside.dialled) != 2 || u.Failure() != nil {
			t.Errorf("dialled inside %q, directly %q, failure %v", inside.dialled, direct.dialled, u.Failure())
		}
	})
}

func TestAJobWithoutAWayIsTriedAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var direct, inside server
		dial := func(context.Context, string) (net.Conn, error) { return nil, errors.New("the node has no python3") }
		u, _ := upgradesOf(t, &direct, func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, address) })
		dial = inside.dial
		upgrade(t, u)
		if len(direct.dialled) != 1 || len(inside.dialled) != 0 || u.Failure() == nil {
			t.Errorf("dialled inside %q, directly %q, failure %v", inside.dialled, direct.dialled, u.Failure())
		}
		time.Sleep(insideRest)
		upgrade(t, u)
		if len(direct.dialled) != 1 || len(inside.dialled) != 2 || u.Failure() != nil {
			t.Errorf("dialled inside %q, directly %q, failure %v", inside.dialled, direct.dialled, u.Failure())
		}
	})
}

func TestUpgradesOfKernels(t *testing.T) {
	request := []byte("GET /api/kernels/k1/channels?session_id=s1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n")
	for _, tt := range []struct {
		left time.Duration // cannot be reached
		why  error
		want []error // of one attempt after the other; nil: it went the way of the page
	}{
		{20 * time.Second, step.ErrLeft, []error{step.ErrKept, step.ErrKept}}, // the relay was asked
		{20 * time.Second, api.ErrDown, []error{step.ErrKept}},
		{40 * time.Second, step.ErrLeft, []error{errLooking, step.ErrKept}},
		{time.Hour, step.ErrLeft, []error{errLooking, errLooking, nil}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var direct, inside server
			began := time.Now()
			u, _ := upgradesOf(t, &direct, func(ctx context.Context, address string) (net.Conn, error) {
				if time.Since(began) < tt.left {
					return nil, fmt.Errorf("%w: the step does not start", tt.why)
				}
				return inside.dial(ctx, address)
			})
			for i, want := range tt.want {
				conn, err := u.DialUpgrade(t.Context(), "tcp", "cn01:8888", request)
				if err == nil {
					_ = conn.Close()
				}
				if !errors.Is(err, want) || len(direct.dialled) > 0 != (want == nil) {
					t.Errorf("left for %v: attempt %d: %v, dialled directly %q", tt.left, i, err, direct.dialled)
				}
			}
		})
	}
}

func TestALostLinkSaysNothingAboutTheWayThroughTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var direct, inside server
		dial := inside.dial
		u, _ := upgradesOf(t, &direct, func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, address) })
		dial = func(context.Context, string) (net.Conn, error) { return nil, api.ErrDown }
		upgrade(t, u) // in truth the page is down, too
		if u.Failure() != nil {
			t.Errorf("failure %v", u.Failure())
		}
	})
}

func TestOnlyPagesOfAJobWithoutTLSHaveUpgrades(t *testing.T) {
	p := New(Options{Job: &jobOnNode{}})
	for _, tt := range []struct{ scheme, node string }{{"https", "cn01"}, {"vnc", "cn01"}, {"http", ""}, {"http", "login1"}} {
		if u := p.upgrades(t.Context(), &Target{Node: tt.node}, api.Endpoint{Scheme: tt.scheme}, Route{}); u != nil {
			t.Errorf("%+v has upgrades", tt)
		}
	}
}
