package openssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
)

// AskpassSocket is the environment variable that makes a program answer a question of
// ssh; see Askpass.
const AskpassSocket = "TUNCTL_ASKPASS" //nolint:gosec // a name, not a secret

// maxQuestion bounds the length of a question.
const maxQuestion = 16 << 10

// Askpass sends a question of ssh to the process that started it and returns the answer.
// The program named by Options.Askpass calls it when the variable AskpassSocket is set:
// its first argument is the question, and it prints the answer.
func Askpass(ctx context.Context, socket, question string) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, question); err != nil {
		return "", err
	}
	if err := c.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err == nil && len(answer) == 0 {
		err = errors.New("the prompt was not answered")
	}
	return strings.TrimSuffix(string(answer), "\n"), err
}

// ServeAskpass has answer answer ssh's questions until stop is called; false: there is no
// answer. asked reports whether there were any.
func (m *Master) ServeAskpass(ctx context.Context, answer func(question string) (string, bool)) (asked func() bool, stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "unix", m.AskSocket())
	if err != nil {
		return nil, nil, fmt.Errorf("listen for ssh prompts: %w", err)
	}
	var wg sync.WaitGroup
	var came atomic.Bool
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Store(true)
			respond(c, answer) // one at a time: ssh waits for each
		}
	})
	return came.Load, func() {
		_ = l.Close()
		wg.Wait()
	}, nil
}

// respond answers one question, or hangs up without an answer.
func respond(c net.Conn, answer func(string) (string, bool)) {
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	question, err := io.ReadAll(io.LimitReader(c, maxQuestion))
	if err != nil {
		return
	}
	if text, ok := answer(string(question)); ok {
		_, _ = io.WriteString(c, text+"\n") // ssh may have ended
	}
}

// Questions are those of one ssh program, which does not say which answers were wrong.
type Questions struct {
	last  string
	times int // asked in a row
}

// Read recognizes a question by ssh's wording; prompts is how often ssh asks. touch: ssh
// only announces that a security key needs a touch, and expects no answer.
func (q *Questions) Read(text string, prompts int) (p api.Prompt, touch bool) {
	if strings.HasPrefix(text, "Confirm user presence for key") {
		return api.Prompt{}, true
	}
	p = question(api.NewRemoteText(text).String())
	p.Retry = q.retry(p, prompts)
	return p, false
}

// retry says that the last answer was wrong if ssh asks the same again. A second
// "Password:" of a challenge is left out, since it may want a code.
func (q *Questions) retry(p api.Prompt, prompts int) string {
	if p.Text != q.last {
		q.last, q.times = p.Text, 0
	}
	q.times++
	if q.times == 1 || p.Kind == api.PromptQuestion && strings.Contains(strings.ToLower(p.Text), "password") {
		return ""
	}
	return api.RetryText("that was not right", max(prompts-q.times+1, 1))
}

// question recognizes the kind of a question by ssh's wording.
func question(text string) api.Prompt {
	p := api.Prompt{Kind: api.PromptQuestion, Text: text}
	switch {
	case strings.Contains(text, "(yes/no"):
		p.Kind, p.Echo = api.PromptHostKey, true
	case strings.Contains(text, "passphrase"):
		p.Kind = api.PromptPassphrase
	case strings.HasSuffix(text, "'s password:"):
		p.Kind = api.PromptPassword
	}
	return p
}
