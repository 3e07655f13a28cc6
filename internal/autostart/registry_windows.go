package autostart

import (
	"errors"
	"fmt"

	win "golang.org/x/sys/windows/registry"
)

// userRegistry is HKEY_CURRENT_USER.
type userRegistry struct{}

func openRegistry() registry { return userRegistry{} }

func (userRegistry) get(key, name string) (text string, raw []byte, err error) {
	k, err := win.OpenKey(win.CURRENT_USER, key, win.QUERY_VALUE)
	if errors.Is(err, win.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot open the registry key %q: %w", key, err)
	}
	defer k.Close()
	text, _, err = k.GetStringValue(name)
	if errors.Is(err, win.ErrUnexpectedType) {
		raw, _, err = k.GetBinaryValue(name)
	}
	if errors.Is(err, win.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot read %q of the registry key %q: %w", name, key, err)
	}
	return text, raw, nil
}

func (userRegistry) set(key, name, text string) error {
	k, _, err := win.CreateKey(win.CURRENT_USER, key, win.SET_VALUE)
	if err != nil {
		return fmt.Errorf("cannot open the registry key %q: %w", key, err)
	}
	defer k.Close()
	if err := k.SetStringValue(name, text); err != nil {
		return fmt.Errorf("cannot set %q of the registry key %q: %w", name, key, err)
	}
	return nil
}

func (userRegistry) unset(key, name string) error {
	k, err := win.OpenKey(win.CURRENT_USER, key, win.SET_VALUE)
	if errors.Is(err, win.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open the registry key %q: %w", key, err)
	}
	defer k.Close()
	if err := k.DeleteValue(name); err != nil && !errors.Is(err, win.ErrNotExist) {
		return fmt.Errorf("cannot remove %q of the registry key %q: %w", name, key, err)
	}
	return nil
}
