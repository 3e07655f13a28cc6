package configs

import (
	"os"
	"path/filepath"
	"strings"
)

// localPrefix marks a path on this computer where one on the host is usual.
const localPrefix = "local:"

// LocalPath is a path on this computer, whose "~/" is the home folder. Every such path
// of a config is read through it; paths on a host are expanded there.
func LocalPath(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path // whoever opens it says what is missing
	}
	return filepath.Join(home, rest)
}

// localOrRemote expands a path that is on this computer where it says so.
func localOrRemote(path string) string {
	if here, ok := strings.CutPrefix(path, localPrefix); ok {
		return localPrefix + LocalPath(here)
	}
	return path
}

// sshConfigPath is the file that ssh_config names: relative to the config's folder,
// since the agent has none of its own. "none" is no file, as with ssh -F.
func sshConfigPath(text, config string) string {
	path := LocalPath(text)
	if path == "none" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(config), path)
}
