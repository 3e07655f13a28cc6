package desktop

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Copy puts text on the clipboard. The text goes to a program's standard input, since
// every user can read a command line. On X and Wayland the program outlives us with it.
func Copy(ctx context.Context, text string) error {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return firstOf(ctx, clipboardPrograms(runtime.GOOS), func(argv []string) error {
		cmd := command(limited, argv)
		cmd.Stdin = strings.NewReader(text)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
		return nil
	})
}

// clipboardPrograms lists the command lines that copy their input to the clipboard.
func clipboardPrograms(goos string) [][]string {
	switch {
	case goos == "windows", goos == "linux" && wsl():
		return [][]string{{"clip.exe"}}
	case goos == "darwin":
		return [][]string{{"pbcopy"}}
	}
	var list [][]string
	if os.Getenv("WAYLAND_DISPLAY") != "" {
		list = append(list, []string{"wl-copy"})
	}
	if os.Getenv("DISPLAY") != "" {
		list = append(list, []string{"xclip", "-selection", "clipboard"}, []string{"xsel", "-ib"})
	}
	return list
}
