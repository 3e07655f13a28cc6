package desktop

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Copy puts text on the clipboard, through a program's standard input, since a
// command line is no place for it.
func Copy(ctx context.Context, text string, env api.Env) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	e := environOf(env)
	failures := []error{ErrUnavailable}
	for _, argv := range copiers(runtime.GOOS, e) {
		err := feed(ctx, e, argv, text)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// copiers lists the programs that would take the clipboard's new content.
func copiers(goos string, env environ) [][]string {
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

func feed(ctx context.Context, env environ, argv []string, text string) error {
	path, err := env.find(argv[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = env.list()
	cmd.SysProcAttr = detached() // what holds the clipboard on X and Wayland outlives us
	cmd.Stdin = strings.NewReader(text)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}
