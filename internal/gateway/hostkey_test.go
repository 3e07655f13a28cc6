package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
)

func TestHostKeyNotWritten(t *testing.T) {
	for _, blocked := range []string{"host_key", "known_hosts"} {
		t.Run(blocked, func(t *testing.T) {
			dir := t.TempDir()
			// A folder in its place lets a file be neither read nor replaced.
			must.Do(t, os.MkdirAll(filepath.Join(dir, blocked, "inhabited"), 0o700))
			if _, err := HostKey(dir); err == nil {
				t.Error("no error")
			}
			entries, err := os.ReadDir(dir)
			must.Do(t, err)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") {
					t.Errorf("%s is left behind", e.Name())
				}
			}
		})
	}
}
