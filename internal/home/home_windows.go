package home

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// configFolder is the system's folder for configs.
func configFolder() (string, error) { return os.UserConfigDir() }

// stateFolder is the system's folder for state: %LocalAppData%, which stays on this machine.
func stateFolder() (string, error) { return os.UserCacheDir() }

// runtimeFolder is empty: the agent's pipe is no file.
func runtimeFolder() string { return "" }

// systemConfig is the system's folder for the settings of all people. Everybody may create
// folders in %ProgramData%.
func systemConfig() string {
	if dir := os.Getenv("ProgramFiles"); filepath.IsAbs(dir) {
		return dir
	}
	return `C:\Program Files`
}

// machineID is empty: %LocalAppData% is never another machine's, so the host name will do.
func machineID() string { return "" }

// closeToOthers relies on the ACLs of %LocalAppData%; see ownedByUs.
func closeToOthers(string, fs.FileInfo) error { return nil }

var fullDisk = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// ownedByUs relies on the ACLs of %LocalAppData%, which only its user can enter.
func ownedByUs(fs.FileInfo) bool { return true }

// bootTime is when this computer was started.
func bootTime() time.Time { return time.Now().Add(-windows.DurationSinceBoot()) }
