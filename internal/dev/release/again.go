package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// repeat makes the release a second time, from a copy of the source in another
// folder and without anything that was compiled before, and compares the checksums.
func (r *release) repeat(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "tunctl-again-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	second := *r
	second.source, second.out, second.cache = filepath.Join(dir, "source"), filepath.Join(dir, "dist"), filepath.Join(dir, "cache")
	if err := copySource(ctx, r.source, second.source); err != nil {
		return err
	}
	if err := second.make(ctx); err != nil {
		return err
	}
	if err := sameRelease(r.out, second.out); err != nil {
		return err
	}
	r.say("made twice, and every byte is the same")
	return nil
}

// sameRelease compares two releases by their checksums and names what differs.
func sameRelease(a, b string) error {
	first, err := os.ReadFile(filepath.Join(a, checksums))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(b, checksums))
	if err != nil {
		return err
	}
	if bytes.Equal(first, second) {
		return nil
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(first)) {
		known[line] = true
	}
	var differ []string
	for line := range strings.Lines(string(second)) {
		if _, name, _ := strings.Cut(strings.TrimSpace(line), "  "); !known[line] {
			differ = append(differ, name)
		}
	}
	return fmt.Errorf("a second release is another one: %s", strings.Join(differ, ", "))
}

// copySource copies what git would: nothing that was built or ignored.
func copySource(ctx context.Context, from, to string) error {
	list, err := git(ctx, from, "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for name := range strings.Lines(list) {
		name = strings.TrimSpace(name)
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, but not yet committed
		}
		if err := errors.Join(err, root.MkdirAll(filepath.Dir(name), 0o700)); err != nil {
			return err
		}
		if err := root.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
