package tray

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// claim makes this the one companion of the login session, by a named mutex.
func claim(instance string) (release func(), alone bool, err error) {
	sum := sha256.Sum256([]byte(instance))
	name, err := windows.UTF16PtrFromString(`Local\tunctl-tray-` + hex.EncodeToString(sum[:8]))
	if err != nil {
		return nil, false, fmt.Errorf("name the companion: %w", err)
	}
	handle, err := windows.CreateMutex(nil, false, name)
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		_ = windows.CloseHandle(handle)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("claim the tray: %w", err)
	}
	return func() { _ = windows.CloseHandle(handle) }, true, nil
}
