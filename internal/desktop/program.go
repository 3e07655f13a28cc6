package desktop

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"tunctl/internal/api"
	"tunctl/internal/lists"
)

// failWithin is how long a program that reports nothing is watched for failing at once.
const failWithin = 2 * time.Second

// command is argv with more in its environment, in a session of its own: out of reach of
// our terminal's Ctrl-C.
func command(ctx context.Context, argv []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = detached()
	return cmd
}

// start runs argv and sends on the channel how it ended. The program may outlive us: a
// browser does. The caller need not receive.
func start(argv []string) (<-chan error, error) {
	cmd := command(context.Background(), argv)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %w", argv[0], err)
		}
		ended <- err
	}()
	return ended, nil
}

// startFirst starts the first of the programs that does not fail at once.
func startFirst(ctx context.Context, programs [][]string) error {
	return firstOf(ctx, programs, func(argv []string) error {
		ended, err := start(argv)
		if err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(failWithin):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// firstOf tries one program after another until one succeeds or ctx ends.
func firstOf(ctx context.Context, programs [][]string, try func(argv []string) error) error {
	var failures []error
	for _, argv := range programs {
		err := try(argv)
		if err == nil || ctx.Err() != nil {
			return err
		}
		failures = append(failures, err)
	}
	return unavailable(programs, failures)
}

// unavailable says why none of the programs does what the desktop should: that they are not
// installed, or how one that is has failed. Its error wraps ErrUnavailable.
func unavailable(programs [][]string, failures []error) error {
	names := lists.Map(programs, func(argv []string) string { return argv[0] })
	why := "none of these programs is installed: " + strings.Join(names, ", ")
	if len(names) == 0 {
		why = "neither DISPLAY nor WAYLAND_DISPLAY is set"
	}
	if i := slices.IndexFunc(failures, func(err error) bool { return !errors.Is(err, exec.ErrNotFound) }); i >= 0 {
		why = failures[i].Error()
	}
	return api.Errorf(api.CodeFailed, "%s", why).Because(ErrUnavailable)
}

// powershell is the command line that runs a script in the PowerShell of every Windows.
// The script is encoded, since programs on Windows differ in how they read quotes.
func powershell(script string) []string {
	text, _ := binary.Append(nil, binary.LittleEndian, utf16.Encode([]rune(script))) // numbers can always be written
	return []string{
		"powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-ExecutionPolicy", "Bypass",
		"-EncodedCommand", base64.StdEncoding.EncodeToString(text),
	}
}
