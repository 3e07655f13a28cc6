package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// checksums is the file that `sha256sum -c` reads. It is written last, and so marks
// a folder that holds a whole release.
const checksums = "SHA256SUMS"

func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out) // in the order of names
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, e := range entries {
		sum, err := sha256Of(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, e.Name())
	}
	r.say("%d files in %s", len(entries)+1, r.out)
	return os.WriteFile(filepath.Join(r.out, checksums), []byte(list.String()), 0o644) //nolint:gosec // a release is for everybody
}

func sha256Of(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
