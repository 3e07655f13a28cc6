package setup

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

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

// noScheduler is the value of scheduler of a host without one, as TOML.
const noScheduler = `"none"`

// OwnMachineQuestion is the question whether jobs may run on a host where no scheduler was found.
func OwnMachineQuestion(host string) string {
	return "No scheduler was found on " + host + ". Is this your own machine, so that jobs may run on it directly? [y/N] "
}

// IsYes reports whether an answer to such a question is yes.
func IsYes(answer string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y")
}

// SetOwnMachine writes to the config that a host has no scheduler.
func SetOwnMachine(ctx context.Context, cl *client.Client, config, host string) error {
	f, err := readConfigFile(config, cl)
	if err != nil {
		return err
	}
	text, err := withoutScheduler(f.before, host)
	if err != nil {
		return err
	}
	return f.write(ctx, text)
}

// withoutScheduler is a config that says of a host that it has no scheduler.
func withoutScheduler(config []byte, host string) ([]byte, error) {
	return configs.Changed(config, "host", host, "scheduler", noScheduler)
}
