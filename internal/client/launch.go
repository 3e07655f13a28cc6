package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"tunctl/internal/home"
)

// Detached returns a launcher that runs argv as a process of its own: no
// terminal, its own process group, its output in the agent's log.
func Detached(paths home.Paths, argv ...string) Launcher {
	return func(ctx context.Context) (<-chan error, error) {
		if err := home.MakePrivate(paths.State); err != nil {
			return nil, err
		}
		out, err := os.OpenFile(paths.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer func() { _ = out.Close() }()
		begin, err := out.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, err
		}
		// The agent outlives the command that starts it.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Dir = paths.State
		cmd.SysProcAttr = detach()
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("run %q: %w", argv[0], err)
		}
		ended := make(chan error, 1)
		// It waits as long as the agent lives or this program does; a tray that
		// started an agent is left no zombie.
		go func() {
			if err := cmd.Wait(); err != nil {
				ended <- lastWords(paths.Log(), begin, err)
			}
		}()
		return ended, nil
	}
}

// lastWords is the error that an agent which ended with err wrote to its log after
// begin, as a command's error is written to a terminal.
func lastWords(log string, begin int64, err error) error {
	f, openErr := os.Open(log)
	if openErr != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, readErr := io.ReadAll(io.NewSectionReader(f, begin, 1<<20))
	if i := bytes.LastIndex(text, []byte("tunctl: error: ")); readErr == nil && i >= 0 {
		line, _, _ := strings.Cut(string(text[i:]), "\n")
		return errors.New(strings.TrimPrefix(line, "tunctl: error: "))
	}
	return err
}
