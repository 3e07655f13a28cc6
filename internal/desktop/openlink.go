package desktop

import (
	"context"
	"errors"
	"net/url"
	"runtime"
	"strings"
)

// Open shows target by what the desktop has for it: a web page by openPage, anything
// else by openLink.
func Open(ctx context.Context, target string, o OpenOptions) error {
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		return openPage(ctx, target, o)
	}
	return openLink(ctx, target, o)
}

// openLink hands an address that is no web page, such as vnc://localhost:5901, to
// the program that the desktop has for it. The address stands on a command line, so
// it must hold no secret. Where there is no desktop the error wraps ErrUnavailable.
func openLink(ctx context.Context, target string, o OpenOptions) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme == "" || u.User != nil || u.RawQuery != "" {
		return errors.New("only a complete address without secrets can be opened")
	}
	env := environOf(o.Env)
	var programs [][]string
	switch {
	case runtime.GOOS == "windows":
		programs = [][]string{{"rundll32.exe", "url.dll,FileProtocolHandler", u.String()}}
	case runtime.GOOS == "darwin":
		programs = [][]string{{"open", u.String()}}
	case env.graphical():
		programs = [][]string{{"xdg-open", u.String()}, {"gio", "open", u.String()}}
	}
	return startFirst(ctx, env, programs)
}
