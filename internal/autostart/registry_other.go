//go:build !windows

package autostart

import "errors"

// noRegistry is the registry of other systems.
type noRegistry struct{}

func openRegistry() registry { return noRegistry{} }

var errNoRegistry = errors.New("the registry is only on Windows")

func (noRegistry) get(string, string) (text string, raw []byte, err error) {
	return "", nil, errNoRegistry
}
func (noRegistry) set(string, string, string) error { return errNoRegistry }
func (noRegistry) unset(string, string) error       { return errNoRegistry }
