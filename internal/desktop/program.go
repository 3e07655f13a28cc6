package desktop

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// settle is how long a program that reports nothing is watched for failing at once.
const settle = 2 * time.Second

// start runs argv on its own, out of reach of our terminal's Ctrl-C, and tells on
// the channel how it ended. The program may outlive us: a browser does. Whoever
// started it need not wait, the reading of its end costs one sleeping goroutine.
func start(env environ, argv []string) (<-chan error, error) {
	path, err := env.find(argv[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), path, argv[1:]...)
	cmd.Env = env.list()
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		if err := cmd.Wait(); err != nil {
			ended <- fmt.Errorf("%s: %w", argv[0], err)
			return
		}
		ended <- nil
	}()
	return ended, nil
}

// startFirst starts the first of the programs that does not fail at once.
func startFirst(ctx context.Context, env environ, programs [][]string) error {
	var failures []error
	for _, argv := range programs {
		ended, err := start(env, argv)
		if err == nil {
			err = survives(ctx, ended)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		failures = append(failures, err)
	}
	return errors.Join(append([]error{ErrUnavailable}, failures...)...)
}

// survives waits until a program ended well, or ran for long enough to trust it.
func survives(ctx context.Context, ended <-chan error) error {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
