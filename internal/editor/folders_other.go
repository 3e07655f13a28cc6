//go:build !darwin && !windows

package editor

// programFolders are where programs are installed that are not on the PATH.
func programFolders() []string { return nil }
