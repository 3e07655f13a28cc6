//go:build unix

package doctor

import "io/fs"

const hasAgentSocket = true // of the ssh agent

// openToOthers reports whether others may use a file.
func openToOthers(file fs.FileInfo) bool { return file.Mode().Perm()&0o077 != 0 }
