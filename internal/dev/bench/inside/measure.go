//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/proxy"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

const (
	rtt    = 40 * time.Millisecond // between laptop and login node, where waits are measured
	rounds = 15
)

// commands times a command inside the job against the ways that people have today.
func (f *field) commands(ctx context.Context) ([]table.Row, error) {
	if err := f.lab.Delay(rtt, 0); err != nil {
		return nil, err
	}
	defer func() { _ = f.lab.Delay(0, 0) }() // the lab ends soon
	const stock, ours, hop, srun = "ssh SESSION.tun true", "tunctl ssh SESSION true", "ssh -J LOGIN NODE true", "srun --overlap true, typed on the login node"
	took := table.Samples{}
	for round := range rounds + 1 {
		for name, run := range map[string]func() error{
			stock: func() error { return f.run(ctx, f.ssh(host, "true")...) },
			ours:  func() error { return f.run(ctx, f.tunctl, "ssh", "bench", "true") },
			hop:   func() error { return f.run(ctx, f.ssh(other, "true")...) }, // the lab's settings have its ProxyJump
			srun: func() error {
				_, err := f.lab.As("hpcuser", "srun", "--jobid="+f.job, "--overlap", "true")
				return err
			},
		} {
			began := time.Now()
			if err := run(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if round > 0 { // the first one starts the step
				took.Add(name, time.Since(began).Seconds())
			}
		}
	}
	var rows []table.Row
	for _, name := range []string{stock, ours} {
		ours, theirs := took.Median(name), took.Median(srun)
		rows = append(rows,
			table.AtMost(name+", 40 ms", hop, "s", took.Median(hop), ours, 0.5),
			table.Row{
				Measure: name + ", 40 ms", Peer: srun, Theirs: theirs, Ours: ours, Unit: "s",
				// The way there and back, and the programs that start on the laptop, which the peer does not need.
				Goal: "≤ 60 ms more", Reached: ours <= theirs+rtt.Seconds()+0.02,
			})
	}
	return rows, nil
}

// run runs a command to its end.
func (f *field) run(ctx context.Context, words ...string) error {
	_, err := f.output(ctx, words[0], words[1:]...)
	return err
}

// seeGPU counts how many of 100 commands see the job's GPU.
func (f *field) seeGPU(ctx context.Context) ([]table.Row, error) {
	const runs = 100
	seen := 0
	for range runs {
		out, err := f.output(ctx, "ssh", "-F", f.sshConfig, host, "echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES")
		if err != nil {
			return nil, err
		}
		if out == f.job+" "+f.gpu {
			seen++
		}
	}
	return []table.Row{{
		Measure: fmt.Sprintf("commands of %d that see the job's GPU", runs), Ours: float64(seen), Goal: fmt.Sprint(runs), Reached: seen == runs,
	}}, nil
}

// connections echoes data on 24 connections at once through one ssh, as an editor does.
func (f *field) connections(ctx context.Context) ([]table.Row, error) {
	const count, size = 24, 4 << 20
	port, err := ground.FreePort()
	if err != nil {
		return nil, err
	}
	socks := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	stop, err := f.background(ctx, socks, "-D", socks, host)
	if err != nil {
		return nil, err
	}
	defer stop()
	dialer, err := proxy.SOCKS5("tcp", socks, nil, nil)
	if err != nil {
		return nil, err
	}
	failures := make(chan error, count)
	began := time.Now()
	for range count {
		go func() {
			c, err := dialer.Dial("tcp", "127.0.0.1:"+f.port)
			if err == nil {
				err = echo(c, size)
			}
			failures <- err
		}()
	}
	exact := 0
	for range count {
		if err := <-failures; err == nil {
			exact++
		}
	}
	took := time.Since(began)
	steps, err := f.steps()
	if err != nil {
		return nil, err
	}
	return []table.Row{
		{Measure: fmt.Sprintf("connections of %d at once that carry 4 MB both ways", count), Ours: float64(exact), Goal: fmt.Sprint(count), Reached: exact == count},
		{Measure: "… all of them, both ways", Ours: took.Seconds(), Unit: "s", Goal: "none", Reached: true},
		{Measure: "… steps of the job", Ours: float64(steps), Goal: "1", Reached: steps == 1},
	}, nil
}

// echo sends bytes to the echo of the job's server and compares what comes back.
func echo(c net.Conn, size int) error {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	sent, got := make([]byte, size), make([]byte, size)
	_, _ = rand.Read(sent)
	go func() { _, _ = c.Write(append([]byte("e"), sent...)) }() // what is wrong with it shows at the other end
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(sent, got) {
		return errors.New("other bytes came back")
	}
	return nil
}

// throughput moves bulk data through the step, through the login node to the node's address, and
// through an srun that is typed in an ssh to the login node.
func (f *field) throughput(ctx context.Context) ([]table.Row, error) {
	const size, turns = 64 << 20, 3
	const step, login, srun = "the step", "the login node's forward", "ssh LOGIN srun --overlap"
	ways := map[string]func(letter byte) (float64, error){}
	for name, way := range map[string][2]string{step: {"localhost", host}, login: {node, "lab-login.tun"}} {
		port, err := ground.FreePort()
		if err != nil {
			return nil, err
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		stop, err := f.background(ctx, address, "-L", address+":"+way[0]+":"+f.port, way[1])
		if err != nil {
			return nil, err
		}
		defer stop()
		ways[name] = func(letter byte) (float64, error) { return transfer(ctx, address, letter, size) }
	}
	ways[srun] = func(letter byte) (float64, error) { return f.srun(ctx, letter, size) }
	down, up := table.Samples{}, table.Samples{}
	for range turns {
		for name, move := range ways {
			d, err := move('d')
			if err != nil {
				return nil, fmt.Errorf("down through %s: %w", name, err)
			}
			u, err := move('u')
			if err != nil {
				return nil, fmt.Errorf("up through %s: %w", name, err)
			}
			down.Add(name, d)
			up.Add(name, u)
		}
	}
	var rows []table.Row
	for _, d := range []struct {
		measure string
		rates   table.Samples
	}{{"one stream down through the step", down}, {"one stream up through the step", up}} {
		forward := table.AtLeast(d.measure, login, "MB/s", d.rates.Median(login), d.rates.Median(step), 0)
		forward.Goal = "none"
		rows = append(rows, table.AtLeast(d.measure, srun, "MB/s", d.rates.Median(srun), d.rates.Median(step), 0.8), forward)
	}
	return rows, nil
}

// srun moves size bytes one way through srun and a new login, and returns how fast that went, in MB/s.
func (f *field) srun(ctx context.Context, letter byte, size int64) (float64, error) {
	remote := fmt.Sprintf("head -c %d /dev/zero", size)
	if letter == 'u' {
		remote = "sh -c 'cat >/dev/null'"
	}
	words := f.ssh("lab-login", "srun --unbuffered --overlap --jobid="+f.job+" "+remote)
	cmd := f.command(ctx, words[0], words[1:]...)
	if letter == 'u' {
		cmd.Stdin = io.LimitReader(zeros{}, size)
	}
	began := time.Now()
	err := cmd.Run()
	return float64(size) / 1e6 / time.Since(began).Seconds(), err
}

// background starts an ssh that forwards, and waits until it listens at an address.
func (f *field) background(ctx context.Context, address string, args ...string) (stop func(), err error) {
	words := f.ssh(append([]string{"-N", "-o", "ExitOnForwardFailure=yes"}, args...)...)
	cmd := f.command(ctx, words[0], words[1:]...)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return stop, c.Close()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			stop()
			return nil, fmt.Errorf("%q does not listen: %w\n%s", words, err, talk.String())
		}
	}
}

// transfer moves size bytes one way and returns how fast that went, in MB/s.
func transfer(ctx context.Context, address string, letter byte, size int64) (float64, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	return transferOver(ctx, c, letter, size)
}

// transferOver is transfer over a connection, which it closes.
func transferOver(ctx context.Context, c net.Conn, letter byte, size int64) (float64, error) {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	began := time.Now()
	if _, err := c.Write(binary.BigEndian.AppendUint64([]byte{letter}, uint64(size))); err != nil {
		return 0, err
	}
	var err error
	if letter == 'd' {
		_, err = io.CopyN(io.Discard, c, size)
	} else if _, err = io.CopyN(c, zeros{}, size); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1)) // all of it was taken
	}
	return float64(size) / 1e6 / time.Since(began).Seconds(), err
}

// zeros is an endless source of them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
