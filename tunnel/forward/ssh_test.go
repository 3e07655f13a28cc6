package forward

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// overSSH is a Dialer through a plain SSH connection, whose far side dials from here.
func overSSH(t *testing.T) Dialer {
	t.Helper()
	config := &ssh.ServerConfig{NoClientAuth: true}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config.AddHostKey(key)
	address := far(t, func(c *net.TCPConn) {
		_, channels, requests, err := ssh.NewServerConn(c, config)
		if err != nil {
			return
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { ssh.DiscardRequests(requests) })
		for nc := range channels {
			wg.Go(func() { passOn(nc) })
		}
	})
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = client.Wait()
	})
	return dialerFunc(func(_ context.Context, network, address string) (net.Conn, error) {
		return client.Dial(network, address)
	})
}

// passOn serves a direct-tcpip channel (RFC 4254, section 7.2).
func passOn(nc ssh.NewChannel) {
	var to struct {
		Host     string
		Port     uint32
		From     string
		FromPort uint32
	}
	_ = ssh.Unmarshal(nc.ExtraData(), &to)
	dialled, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		closing(dialled)
		return
	}
	var up, rest sync.WaitGroup
	rest.Go(func() { ssh.DiscardRequests(requests) })
	up.Go(func() {
		_, _ = io.Copy(dialled, ch)
		_ = dialled.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(ch, dialled)
	_ = ch.CloseWrite()
	up.Wait()
	_ = ch.Close()
	rest.Wait()
	closing(dialled)
}

func TestAStreamOverSSHIsAsADirectOne(t *testing.T) {
	directly, through, ends, f := stage(t, false)
	f.Open(Target{Dialer: overSSH(t), Network: "tcp", Address: directly})
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		client, server := randomPart(r), randomPart(r)
		c0, s0 := converse(t, directly, ends, client, server)
		c1, s1 := converse(t, through, ends, client, server)
		same(t, fmt.Sprintf("seed %d, at the client", seed), c0, c1)
		same(t, fmt.Sprintf("seed %d, at the server", seed), s0, s1)
	}
}
