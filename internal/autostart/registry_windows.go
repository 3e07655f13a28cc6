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
	err = use(key, name, "read", win.QUERY_VALUE, func(k win.Key) (err error) {
		text, _, err = k.GetStringValue(name)
		if errors.Is(err, win.ErrUnexpectedType) {
			raw, _, err = k.GetBinaryValue(name)
		}
		return err
	})
	return text, raw, err
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
	return use(key, name, "remove", win.SET_VALUE, func(k win.Key) error { return k.DeleteValue(name) })
}

// use reads or removes a value of a key. That there is none is no error.
func use(key, name, verb string, access uint32, f func(win.Key) error) error {
	k, err := win.OpenKey(win.CURRENT_USER, key, access)
	if errors.Is(err, win.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open the registry key %q: %w", key, err)
	}
	defer k.Close()
	if err := f(k); err != nil && !errors.Is(err, win.ErrNotExist) {
		return fmt.Errorf("cannot %s %q of the registry key %q: %w", verb, name, key, err)
	}
	return nil
}
