// Package desktop does what needs the user's desktop: it opens pages, files and
// terminals, copies to the clipboard, shows notifications, and asks questions.
//
// It owns how a page with a secret in its address gets to the browser: by a link that
// works once, so that the secret is on no command line. It keeps no state between two
// calls, and knows neither the agent nor sessions.
package desktop

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
)

var (
	// ErrNoBrowser says that no browser can show a page: the caller prints the address.
	ErrNoBrowser = errors.New("no browser found")
	// ErrNotOpened says that a browser was started but did not request the page.
	ErrNotOpened = errors.New("the browser did not load the page")
	// ErrUnavailable says that this desktop has no such thing.
	ErrUnavailable = errors.New("not available on this desktop")
)

// graphical reports whether an X or Wayland display is named.
func graphical() bool { return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" }

// wsl reports whether this is Linux inside Windows, where the browser is a
// Windows program.
func wsl() bool { return os.Getenv("WSL_DISTRO_NAME") != "" || os.Getenv("WSL_INTEROP") != "" }

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
