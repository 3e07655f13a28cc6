package agent

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
	"tunctl/internal/usage"
)

// sampler is the program that measures inside a job. It prints a reading when it is asked,
// and ends with its channel.
type sampler struct {
	channel  ssh.Channel
	readings chan samplerResult
	done     chan struct{} // closed by close
}

type samplerResult struct {
	reading usage.Reading
	err     error
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
func startSampler(ctx context.Context, m machine, job string) (*sampler, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerStart, errSamplerSlow)
	defer cancel()
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	s := &sampler{channel: ch, readings: make(chan samplerResult), done: make(chan struct{})}
	// These end with the channel: a node that does not respond must not hold the meter.
	started := make(chan error, 1)
	go ssh.DiscardRequests(requests)
	go func() { started <- s.start(job) }()
	go s.receive()
	select {
	case err = <-started:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// start sends the program.
func (s *sampler) start(job string) error {
	ok, err := s.channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{usage.Command}))
	if err == nil && !ok {
		err = errors.New("no command may be run there")
	}
	if err == nil {
		_, err = io.WriteString(s.channel, usage.Input(job))
	}
	return err
}

// receive reads what the program prints, to its end.
func (s *sampler) receive() {
	in, text := bufio.NewReader(s.channel), ""
	for {
		line, err := api.ReadLine(in, maxReading-len(text))
		if err != nil {
			s.send(samplerResult{err: errSamplerEnded})
			return
		}
		if strings.TrimSpace(line) != usage.End {
			text += line
			continue
		}
		r, err := usage.Parse(text)
		text = ""
		s.send(samplerResult{r, err})
	}
}

func (s *sampler) send(r samplerResult) {
	select {
	case s.readings <- r:
	case <-s.done:
	}
}

// read has the program measure once. After an error the program is of no use.
func (s *sampler) read(ctx context.Context) (usage.Reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerRead, errSamplerSlow)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.channel.Close() })()
	if _, err := io.WriteString(s.channel, "\n"); err != nil {
		return usage.Reading{}, errSamplerEnded
	}
	select {
	case r := <-s.readings:
		return r.reading, r.err
	case <-ctx.Done():
		return usage.Reading{}, context.Cause(ctx)
	}
}

// close ends the program. It waits for nobody: the node may not respond.
func (s *sampler) close() {
	close(s.done)
	_ = s.channel.Close()
}
