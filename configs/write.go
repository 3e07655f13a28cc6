package configs

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tunctl/internal/api"
)

// Create writes the example where there is no config file yet.
func Create(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return write(path, os.O_EXCL, example)
}

// Append adds text at the end of the config file at path. The text before it stays as it
// is, to the byte; an addition that would make the file invalid is not made.
func Append(path, text string) error {
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	addition := text
	switch {
	case len(before) == 0:
	case strings.HasSuffix(string(before), "\n"):
		addition = "\n" + text
	default:
		addition = "\n\n" + text
	}
	if _, err := Parse(path, append(before, addition...)); err != nil {
		return api.Errorf(api.CodeConfig, "nothing was added, because the config would become invalid: %w", err).
			WithHint("fix the file, then try again; `tunctl config check` checks it")
	}
	return write(path, os.O_APPEND, addition)
}

// write writes text to a file, and creates it and its folder if needed.
func write(path string, flag int, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Quote writes text as a TOML string: what JSON escapes, TOML escapes so, too, and DEL besides.
func Quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // it cannot fail for a string
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007F`)
}
