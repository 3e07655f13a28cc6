package editor

import (
	"os"
	"path/filepath"
)

// programFolders are where programs are installed that are not on the PATH.
func programFolders() []string {
	return []string{"/Applications", filepath.Join(os.Getenv("HOME"), "Applications")}
}
