package desktop

import (
	"context"
	"os"
	"runtime"
	"strings"

	"tunctl/internal/posixsh"
)

// holdOpen runs its arguments, and keeps the window of a failed program open until
// somebody has read why. macOS keeps every window; Windows closes it.
const holdOpen = `"$@" || { echo; echo "Press Enter to close this window."; read -r _; }`

// Terminal runs this very program with args in a new terminal window.
func Terminal(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return startFirst(ctx, terminals(runtime.GOOS, append([]string{self}, args...)))
}

// terminals lists the command lines that run argv in a window.
func terminals(goos string, argv []string) [][]string {
	switch {
	case goos == "windows":
		return [][]string{append([]string{"cmd.exe", "/c", "start", ""}, argv...)}
	case goos == "darwin":
		return [][]string{{
			"osascript", "-e", "on run argv", "-e", `tell application "Terminal"`, "-e", "activate",
			"-e", "do script (item 1 of argv)", "-e", "end tell", "-e", "end run", posixsh.Join(argv),
		}}
	case !graphical():
		return nil
	}
	argv = append([]string{"/bin/sh", "-c", holdOpen, "sh"}, argv...)
	var list [][]string
	if chosen := strings.Fields(os.Getenv("TERMINAL")); len(chosen) > 0 {
		list = append(list, append(append(chosen, "-e"), argv...))
	}
	for _, prefix := range [][]string{
		{"x-terminal-emulator", "-e"},
		{"gnome-terminal", "--"},
		{"kgx", "--"},
		{"konsole", "-e"},
		{"xfce4-terminal", "-x"},
		{"kitty"},
		{"alacritty", "-e"},
		{"foot"},
		{"xterm", "-e"},
	} {
		list = append(list, append(prefix, argv...))
	}
	return list
}
