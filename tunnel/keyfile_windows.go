package tunnel

import "os"

// checkPrivate accepts what Windows' access lists allow; modes mean nothing there.
func checkPrivate(string, os.FileInfo) error { return nil }
