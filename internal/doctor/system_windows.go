package doctor

import "io/fs"

const hasAgentSocket = false // the ssh agent has a pipe of the system's

// openToOthers is false: a file has an access list instead of a mode.
func openToOthers(fs.FileInfo) bool { return false }
