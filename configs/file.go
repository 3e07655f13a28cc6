package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
)

// Create writes the example where there is no config file yet.
func Create(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return Replace(path, nil, []byte(example))
}

// Appended is a config with text at its end. What is before it stays as it is, to the byte.
func Appended(config []byte, text string) []byte {
	switch {
	case len(config) == 0:
	case bytes.HasSuffix(config, []byte("\n")):
		text = "\n" + text
	default:
		text = "\n\n" + text
	}
	return slices.Concat(config, []byte(text))
}

// Changed is a config in which a key of the section [kind.name], which is added if it is missing, has another
// value, which is written as TOML. The rest stays as it is, to the byte.
func Changed(config []byte, kind, name, key, value string) ([]byte, error) {
	src := newSource("", config)
	section := parseTree(src).get(kind).get(name)
	old := section.get(key)
	at := old.at
	switch {
	case section.key == "":
		return Appended(config, fmt.Sprintf("[%s]\n%s = %s\n", dottedKey(kind, name), key, value)), nil
	case section.origin != header, old.key != "" && old.origin != valued:
		return nil, api.Errorf(api.CodeConfig, "cannot change %s of [%s]: it is not on a line of its own there", key, dottedKey(kind, name)).
			WithHint("`tunctl config edit` opens the file")
	case old.key == "":
		_, line := src.line(section.at.end)
		at, value = span{line.end, line.end}, "\n"+key+" = "+value
	}
	mark := config[:len(config)-len(src.data)] // of Windows editors
	return slices.Concat(mark, src.data[:at.start], []byte(value), src.data[at.end:]), nil
}

// Replace writes a config file that has not changed since it was read as old; nil is a file
// that does not exist. A config with errors is not written.
func Replace(path string, old, config []byte) error {
	file, mode, err := atomicfile.Target(path)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case !bytes.Equal(now, old):
		return api.Errorf(api.CodeConfig, "%s was changed by another program meanwhile, so it is left as it is", path).WithHint("run the command again")
	case config == nil:
		return atomicfile.Remove(file)
	}
	if _, err := Parse(path, config); err != nil {
		return api.Errorf(api.CodeConfig, "nothing was written, because the config would become invalid: %w", err).
			WithHint("fix the file, then try again; `tunctl config check` checks it")
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, config, mode.Perm())
}

// Quote writes text as a TOML string: what JSON escapes, TOML escapes so, too, and DEL besides.
func Quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // it cannot fail for a string
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007F`)
}

// readFile reads a file, up to one byte more than the largest.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

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
