package atomicfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

const (
	renameTimeout = 2 * time.Second
	renamePoll    = 10 * time.Millisecond
)

// rename replaces a file that may be open for a moment: Windows rejects that while
// another program, such as a virus scanner or a command that reads the file, has it open.
func rename(from, to string) error {
	for end := time.Now().Add(renameTimeout); ; time.Sleep(renamePoll) {
		err := os.Rename(from, to)
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy || time.Now().After(end) {
			return err
		}
	}
}

// syncFolder does nothing: Windows cannot flush a folder, and its file systems have a
// journal for names.
func syncFolder(string) error { return nil }
