package configs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// quietTime is how long changed files must stay the same before they are used, and
	// maxQuietChecks how often that is checked.
	quietTime      = 20 * time.Millisecond
	maxQuietChecks = 10
)

// Digest identifies the content of a config file and of the sites in folders, or why they cannot be read.
func Digest(file string, folders ...string) string {
	sum := sha256.New()
	add := func(file string) {
		data, err := readFile(file)
		fmt.Fprintf(sum, "%q %v %d\n%s", file, err, len(data), data)
	}
	add(file)
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		fmt.Fprintln(sum, folder, err)
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".toml" {
				add(filepath.Join(folder, e.Name()))
			}
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// ChangedDigest returns the Digest, and whether it differs from before. It reads changed files
// again until they stay the same: some editors empty a file first, or move it away.
func ChangedDigest(before, file string, folders ...string) (digest string, changed bool) {
	digest = Digest(file, folders...)
	last := ""
	for i := 0; i < maxQuietChecks && digest != before && digest != last; i++ {
		time.Sleep(quietTime)
		last, digest = digest, Digest(file, folders...)
	}
	return digest, digest != before
}
