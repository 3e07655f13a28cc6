package doctor

import "io/fs"

const (
	programName    = "tunctl.exe"
	hasAgentSocket = false // the ssh agent has a pipe of the system's
)

// isExecutable is true: the name decides.
func isExecutable(fs.FileInfo) bool { return true }

// openToOthers is false: a file has an access list instead of a mode.
func openToOthers(fs.FileInfo) bool { return false }
