package userkeys

import "os"

// checkPrivate does nothing: Windows has access lists instead of modes.
func checkPrivate(string, os.FileInfo) error { return nil }
