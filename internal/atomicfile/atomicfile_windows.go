package atomicfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

const (
	busyTimeout = 2 * time.Second
	busyPoll    = 10 * time.Millisecond
)

// rename replaces a file that may be open for a moment.
func rename(from, to string) error { return whileBusy(func() error { return os.Rename(from, to) }) }

// Remove removes the file at path, also one that another program reads at the moment.
func Remove(path string) error { return whileBusy(func() error { return os.Remove(path) }) }

// whileBusy tries again to replace or remove a file: Windows rejects that while another
// program, such as a virus scanner or a command that reads the file, has it open.
func whileBusy(try func() error) error {
	for end := time.Now().Add(busyTimeout); ; time.Sleep(busyPoll) {
		err := try()
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy || time.Now().After(end) {
			return err
		}
	}
}

// syncFolder does nothing: Windows cannot flush a folder, and its file systems have a
// journal for names.
func syncFolder(string) error { return nil }
