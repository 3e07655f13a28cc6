package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
)

// appendConfig adds text at the end of the config file. What a person wrote stays
// as it is, to the byte; an addition that would make the file invalid is not made. An
// agent that runs knows of it when this returns.
func appendConfig(ctx context.Context, p home.Paths, text string) error {
	before, err := os.ReadFile(p.Config)
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
	if _, err := configs.Parse(p.Config, append(before, addition...)); err != nil {
		return &api.Error{
			Code: api.CodeConfig, Message: fmt.Sprintf("nothing was added, because the config would become invalid: %v", err), Err: err,
			Hint: "fix the file, then try again; `tunctl config check` checks it",
		}
	}
	if err := os.MkdirAll(filepath.Dir(p.Config), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p.Config, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(addition)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := client.New(p).Reload(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return nil
}

// tomlText is text as TOML writes it.
func tomlText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
