package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAHostKeyThatCannotBeWrittenLeavesNoTemporaryFile(t *testing.T) {
	for _, blocked := range []string{"host_key", "known_hosts"} {
		t.Run(blocked, func(t *testing.T) {
			dir := t.TempDir()
			// A folder in its place lets a file be neither read nor replaced.
			if err := os.MkdirAll(filepath.Join(dir, blocked, "inhabited"), 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := HostKey(dir); err == nil {
				t.Error("no error")
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") {
					t.Errorf("%s is left behind", e.Name())
				}
			}
		})
	}
}
