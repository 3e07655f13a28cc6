package configs

import (
	"os"
	"path/filepath"
	"strings"
)

// LocalPrefix marks a path on this computer instead of the host.
const LocalPrefix = "local:"

// LocalPath expands "~/" in a path on this computer. All local paths of a config are read
// with it; paths on a host are expanded there.
func LocalPath(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path // opening it fails with a clear error
	}
	return filepath.Join(home, rest)
}

// localOrRemote expands a path with the prefix "local:".
func localOrRemote(path string) string {
	if here, ok := strings.CutPrefix(path, LocalPrefix); ok {
		return LocalPrefix + LocalPath(here)
	}
	return path
}

// sshConfigPath is the file of ssh_config, relative to the config's folder, since the
// agent's working directory is arbitrary. "none" is no file, as with ssh -F.
func sshConfigPath(text, config string) string {
	path := LocalPath(text)
	if path == "none" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(config), path)
}
