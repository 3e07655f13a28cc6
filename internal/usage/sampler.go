package usage

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
)

// sampler is the program that measures inside a job. It prints a reading when it is asked,
// and ends with its channel.
type sampler struct {
	channel ssh.Channel
	out     *bufio.Reader // what it prints
}

const (
	// samplerStart bounds the start of the program, which may need a job step first.
	samplerStart = 45 * time.Second
	// samplerRead bounds one reading: nvidia-smi can take seconds.
	samplerRead = 30 * time.Second
	// maxReading is how long what the program prints may be.
	maxReading = 64 << 10
)

var (
	errSamplerEnded = errors.New("the program that measures the job has ended")
	errSamplerSlow  = errors.New("the node does not respond in time")
)

// startSampler starts the program on a machine.
func startSampler(ctx context.Context, m gateway.Machine, job string) (*sampler, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerStart, errSamplerSlow)
	defer cancel()
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	s := &sampler{channel: ch, out: bufio.NewReader(ch)}
	_, err = s.await(ctx, func() (r Reading, err error) {
		ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
		if err == nil && !ok {
			err = errors.New("no command may be run there")
		}
		if err == nil {
			_, err = io.WriteString(ch, input(job))
		}
		return r, err
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// await returns what do returns, which ends with the channel. A node that does not respond
// must not hold the meter: if ctx ends first, the channel is closed and do left to its end.
func (s *sampler) await(ctx context.Context, do func() (Reading, error)) (Reading, error) {
	type result struct {
		reading Reading
		err     error
	}
	results := make(chan result, 1)
	go func() {
		r, err := do()
		results <- result{r, err}
	}()
	select {
	case r := <-results:
		return r.reading, r.err
	case <-ctx.Done():
		s.close()
		return Reading{}, context.Cause(ctx)
	}
}

// read has the program measure once. After an error the program is of no use.
func (s *sampler) read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerRead, errSamplerSlow)
	defer cancel()
	return s.await(ctx, func() (Reading, error) {
		_, err := io.WriteString(s.channel, "\n")
		for text := ""; err == nil; {
			var line string
			if line, err = api.ReadLine(s.out, maxReading-len(text)); err == nil && strings.TrimSpace(line) == endLine {
				return parse(text)
			}
			text += line
		}
		return Reading{}, errSamplerEnded
	})
}

// close ends the program. It waits for nobody: the node may not respond.
func (s *sampler) close() { _ = s.channel.Close() }
