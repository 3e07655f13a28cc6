package desktop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Copy puts text on the clipboard. The text goes to a program's standard input, since
// every user can read a command line.
func Copy(ctx context.Context, text string, env api.Env) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	e := environOf(env)
	failures := []error{ErrUnavailable}
	for _, argv := range clipboardPrograms(runtime.GOOS, e) {
		err := runWithInput(ctx, e, argv, text)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// clipboardPrograms lists the command lines that copy their input to the clipboard.
func clipboardPrograms(goos string, env environ) [][]string {
	switch {
	case goos == "windows", goos == "linux" && env.wsl():
		return [][]string{{"clip.exe"}}
	case goos == "darwin":
		return [][]string{{"pbcopy"}}
	}
	var list [][]string
	if env["WAYLAND_DISPLAY"] != "" {
		list = append(list, []string{"wl-copy"})
	}
	if env["DISPLAY"] != "" {
		list = append(list, []string{"xclip", "-selection", "clipboard"}, []string{"xsel", "-ib"})
	}
	return list
}

func runWithInput(ctx context.Context, env environ, argv []string, text string) error {
	cmd, err := command(ctx, env, argv) // which on X and Wayland outlives us with the clipboard
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(text)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}
