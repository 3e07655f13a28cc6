package real

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

// namesDomain is of a top level that nobody can have (RFC 6761).
const namesDomain = ".lab.test."

// nameService answers for the nodes of a lab, by UDP.
type nameService struct {
	plan   plan
	conn   net.PacketConn
	silent atomic.Bool
	done   chan struct{}
}

func startNameService(ctx context.Context, p plan) (*nameService, error) {
	// Resolvers know no other port. The slot makes the address the lab's own.
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp4", fmt.Sprintf("127.77.0.%d:53", p.Slot+1))
	if err != nil {
		return nil, fmt.Errorf("start a name service: %w", err)
	}
	s := &nameService{plan: p, conn: conn, done: make(chan struct{})}
	go s.serve()
	return s, nil
}

// resolvConf leads to the service, and to no other.
func (s *nameService) resolvConf() string {
	host, _, _ := net.SplitHostPort(s.conn.LocalAddr().String())
	return "nameserver " + host + "\noptions timeout:1 attempts:1\n"
}

func (s *nameService) close() error {
	err := s.conn.Close()
	<-s.done
	return err
}

func (s *nameService) serve() {
	defer close(s.done)
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if s.silent.Load() {
			continue
		}
		if answer, err := s.answer(buf[:n]); err == nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// answer is the whole packet that answers a question.
func (s *nameService) answer(packet []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("no question: %w", err)
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	name, ours := strings.CutSuffix(strings.ToLower(q.Name.String()), namesDomain)
	n, err := nodeByName(name)
	switch {
	case !ours || err != nil:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: s.plan.main(n).As4()},
		}}
	}
	return m.Pack()
}
