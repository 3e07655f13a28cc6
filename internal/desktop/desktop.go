// Package desktop does what needs a person's desktop: it opens pages, files and
// terminals, copies to the clipboard, shows notifications, and asks questions.
//
// It owns how a page with a secret in its address gets to the browser: by a link that
// works once, so that the secret is on no command line. It keeps no state between two
// calls, and knows neither the agent nor sessions.
package desktop

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"tunctl/internal/api"
)

var (
	// ErrNoBrowser says that no browser can show a page: the caller prints the address.
	ErrNoBrowser = errors.New("no browser found")
	// ErrNotOpened says that a browser was started but did not request the page.
	ErrNotOpened = errors.New("the browser did not load the page")
	// ErrUnavailable says that this desktop has no such thing.
	ErrUnavailable = errors.New("not available on this desktop")
)

// environ is the environment that programs are looked up and started in.
type environ map[string]string

// environOf is env, or the process's own where env is nil.
func environOf(env api.Env) environ {
	if env != nil {
		return environ(env)
	}
	return readEnviron(runtime.GOOS, os.Environ())
}

// readEnviron reads an environment in the form of os.Environ. Windows ignores letter
// case, and its name for PATH is "Path": there all names become upper case.
func readEnviron(goos string, pairs []string) environ {
	e := environ{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		if goos == "windows" {
			name = strings.ToUpper(name)
		}
		e[name] = value
	}
	return e
}

// list is the environment as os/exec wants it.
func (e environ) list() []string {
	l := make([]string, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		l = append(l, name+"="+e[name])
	}
	return l
}

// with is this environment and more.
func (e environ) with(more map[string]string) environ {
	all := maps.Clone(e)
	maps.Copy(all, more)
	return all
}

// find is exec.LookPath along this environment's PATH.
func (e environ) find(name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(e["PATH"]) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// graphical reports whether an X or Wayland display is named.
func (e environ) graphical() bool { return e["DISPLAY"] != "" || e["WAYLAND_DISPLAY"] != "" }

// wsl reports whether this is Linux inside Windows, where the browser is a
// Windows program.
func (e environ) wsl() bool { return e["WSL_DISTRO_NAME"] != "" || e["WSL_INTEROP"] != "" }
