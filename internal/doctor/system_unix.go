//go:build unix

package doctor

import "io/fs"

const (
	programName    = "tunctl"
	hasAgentSocket = true // of the ssh agent
)

func isExecutable(file fs.FileInfo) bool { return file.Mode().Perm()&0o111 != 0 }

// openToOthers reports whether others may use a file.
func openToOthers(file fs.FileInfo) bool { return file.Mode().Perm()&0o077 != 0 }
