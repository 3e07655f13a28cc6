package desktop

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/peer"
)

// linkLife is how long a one-time link waits for its use.
const linkLife = 30 * time.Second

// OpenOptions say in which surroundings a page is opened.
type OpenOptions struct {
	Env api.Env // the environment to find and start the browser in; nil: the process's own
}

// openPage shows target, an http or https address that may carry a token, in the
// person's browser. No command line ever holds the address: the browser is given
// a link that works once. It returns as soon as the browser asked for the page,
// however long the browser runs, and an error that wraps ErrNoBrowser where the
// caller had better print the address.
func openPage(ctx context.Context, target string, o OpenOptions) error {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("only a complete http or https address can be opened") // the address itself may hold a token
	}
	env := environOf(o.Env)
	if len(browsers(runtime.GOOS, env, "")) == 0 {
		return fmt.Errorf("%w: neither DISPLAY, WAYLAND_DISPLAY nor BROWSER is set", ErrNoBrowser)
	}
	ctx, cancel := context.WithTimeout(ctx, linkLife)
	defer cancel()
	name := "127.0.0.1"
	if env.wsl() {
		name = "localhost" // the only name Windows relays into WSL
	}
	l, err := newLink(ctx, u.String(), name, peer.Own)
	if err != nil {
		return openPageFile(ctx, u.String(), o) // a machine without a loopback still has files
	}
	defer l.close()
	return browse(ctx, env, browsers(runtime.GOOS, env, l.URL()), l.used)
}

// browse starts one browser after another until used is closed. One that ended
// well is trusted to have passed the link on; one that failed gives way.
func browse(ctx context.Context, env environ, programs [][]string, used <-chan struct{}) error {
	failures := []error{ErrNoBrowser}
	for _, argv := range programs {
		ended, err := start(env, argv)
		if err == nil {
			err = untilUsed(ctx, used, ended)
			if err == nil || errors.Is(err, ErrNotOpened) {
				return err
			}
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// untilUsed waits for the link's use, or the browser's failure.
func untilUsed(ctx context.Context, used <-chan struct{}, ended <-chan error) error {
	for {
		select {
		case <-used:
			return nil
		case err := <-ended:
			if err != nil {
				return err
			}
			ended = nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotOpened, ctx.Err())
		}
	}
}

// OpenFile shows a file in the person's editor or viewer for it.
func OpenFile(ctx context.Context, path string, o OpenOptions) error {
	env := environOf(o.Env)
	var programs [][]string
	switch {
	case runtime.GOOS == "windows":
		programs = [][]string{{"notepad.exe", path}}
	case runtime.GOOS == "darwin":
		programs = [][]string{{"open", "-t", path}}
	case env.graphical():
		programs = [][]string{{"xdg-open", path}, {"gio", "open", path}}
	}
	return startFirst(ctx, env, programs)
}

// OpenHTML shows a page that is a file on this machine in the person's browser.
func OpenHTML(ctx context.Context, path string, o OpenOptions) error {
	env := environOf(o.Env)
	if err := startFirst(ctx, env, browsers(runtime.GOOS, env, fileURL(filepath.ToSlash(path)))); err != nil {
		return fmt.Errorf("%w: %w", ErrNoBrowser, err)
	}
	return nil
}

// fileURL is the address of a file, given by its whole path with slashes. One of
// Windows begins with a drive, which without a slash before it would be a host.
func fileURL(path string) string {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
