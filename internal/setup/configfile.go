package setup

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"tunctl/configs"
	"tunctl/internal/client"
)

// configFile is the config file while it is changed.
type configFile struct {
	path        string
	client      *client.Client
	before, now []byte // nil while there is no file
}

func readConfigFile(path string, cl *client.Client) (configFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return configFile{path: path, client: cl, before: text, now: text}, err
}

// write replaces the file. A running agent has read it when this returns.
func (f *configFile) write(ctx context.Context, text []byte) error {
	if bytes.Equal(f.now, text) {
		return nil
	}
	if err := configs.Replace(f.path, f.now, text); err != nil {
		return err
	}
	f.now = text
	if err := f.client.Reload(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return nil
}

func (f *configFile) changed() bool { return !bytes.Equal(f.now, f.before) }

// Append adds text at the end of the config file. A running agent has read it when this returns.
func Append(ctx context.Context, cl *client.Client, config, text string) error {
	f, err := readConfigFile(config, cl)
	if err != nil {
		return err
	}
	return f.write(ctx, configs.Appended(f.before, text))
}
