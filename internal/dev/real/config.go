package real

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// configMark begins a config that the lab wrote, and may write again.
const configMark = "# This file comes and goes with the lab.\n"

const tunctlConfig = configMark + `ssh_config = %q

[host.lab-login]
scheduler = "slurm"

[session.jupyter]
host   = "lab-login"
app    = "jupyter"
job    = "jupyterlab"
submit = "~/jupyter.sh"

[session.loopback]
host   = "lab-login"
app    = "jupyter"
job    = "jupyter-loopback"
submit = "~/jupyter-loopback.sh"
`

const gridEngineConfig = configMark + `ssh_config = %q

[host.lab-login]
scheduler = "gridengine"

[session.jupyter]
host   = "lab-login"
submit = "builtin:jupyter"
`

// CheckConfig reports whether a tunctl config may be written to a file: it is not
// the user's own.
func CheckConfig(file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !strings.HasPrefix(string(text), configMark) {
		return fmt.Errorf("%s is not the lab's: rename it", file)
	}
	return nil
}

// WriteConfig writes a tunctl config for the lab; it goes when the lab does.
func (c *Cluster) WriteConfig(file string) error {
	if err := CheckConfig(file); err != nil {
		return err
	}
	text := tunctlConfig
	if c.options.GridEngine {
		text = gridEngineConfig
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, text, c.SSHConfig()), 0o644); err != nil {
		return err
	}
	c.record.Config = file
	return c.save()
}
