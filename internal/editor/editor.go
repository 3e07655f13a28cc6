// Package editor is VS Code and its relatives, Zed and JetBrains Gateway: where they are installed, what they need to work over
// ssh, and how they open a folder of a host. It runs an editor only to list its extensions.
package editor

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
)

// Editor is an editor that works over ssh.
type Editor struct {
	Command string // on the PATH
	also    string // its name in some distributions
	Title   string
	get     string // where to get it
	// Extension is what it connects over ssh with; "" if it comes with its own.
	Extension string
	config    string    // the folder of its settings
	Settings  []Setting // that work inside a job needs
	// open are its arguments for a path on a host; nil: those of VS Code.
	open   func(host, path string) []string
	places []string // below the folders of programs on macOS and Windows, if it is not on the PATH
}

// Setting is a setting of an editor, and why it helps.
type Setting struct{ Key, Value, Why string }

// All are those that `tunctl code` looks for, in this order.
var All = []Editor{
	{
		Command: "code", Title: "VS Code", get: "https://code.visualstudio.com", Extension: "ms-vscode-remote.remote-ssh", config: "Code",
		Settings: []Setting{
			{"remote.SSH.localServerDownload", `"always"`, "nodes without internet: the editor's server is downloaded here and copied"},
			{"remote.SSH.connectTimeout", "120", "the first connection into a job may take longer than 15 seconds"},
			{"remote.SSH.lockfilesInTmp", "true", "the home folder is shared by many nodes"},
		},
		places: []string{"Visual Studio Code.app/Contents/Resources/app/bin/code", `Microsoft VS Code\bin\code.cmd`},
	},
	{
		Command: "cursor", Title: "Cursor", get: "https://cursor.com", config: "Cursor",
		places: []string{"Cursor.app/Contents/Resources/app/bin/cursor", `cursor\resources\app\bin\cursor.cmd`},
	},
	{
		Command: "codium", Title: "VSCodium", get: "https://vscodium.com", Extension: "jeanp413.open-remote-ssh", config: "VSCodium",
		places: []string{"VSCodium.app/Contents/Resources/app/bin/codium", `VSCodium\bin\codium.cmd`},
	},
	{
		Command: "positron", Title: "Positron", get: "https://positron.posit.co", config: "Positron",
		places: []string{"Positron.app/Contents/Resources/app/bin/positron", "Positron.app/Contents/Resources/app/bin/code", `Positron\bin\positron.cmd`},
	},
	{
		Command: "zed", also: "zeditor", Title: "Zed", get: "https://zed.dev", open: openZed,
		places: []string{"Zed.app/Contents/MacOS/cli", `Zed\bin\zed.exe`},
	},
	{
		Command: "gateway", also: "gateway.sh", Title: "JetBrains Gateway", get: "https://www.jetbrains.com/remote-development/gateway", open: openGateway,
		places: []string{"JetBrains Gateway.app/Contents/MacOS/gateway", `JetBrains Gateway\bin\gateway64.exe`},
	},
}

// openZed has Zed open a path by its ssh URL.
func openZed(host, path string) []string {
	u := url.URL{Path: path}
	return []string{"ssh://" + host + u.EscapedPath()}
}

// openGateway fills in JetBrains Gateway's form for a connection.
func openGateway(host, path string) []string {
	form := url.Values{"host": {host}, "type": {"ssh"}, "deploy": {"false"}, "projectPath": {path}}
	return []string{"jetbrains-gateway://connect#" + strings.ReplaceAll(form.Encode(), "+", "%20")}
}

// Find is the editor of that name or path, or the first that is installed for "", and
// its program. One that is not installed is returned with the error.
func Find(name string) (e Editor, program string, err error) {
	if name == "" {
		for _, e := range All {
			if program := e.find(); program != "" {
				return e, program, nil
			}
		}
		return All[0], "", api.Errorf(api.CodeFailed, "no editor is installed that can work inside a job: %s", Names()).
			WithHint("install %s; or name its program with --editor PATH", links())
	}
	base := strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".cmd")
	known := slices.IndexFunc(All, func(e Editor) bool { return e.Command == base || e.also == base })
	e = Editor{Command: base, Title: name}
	if known >= 0 {
		e = All[known]
	}
	if strings.ContainsAny(name, `/\`) {
		if program, err = exec.LookPath(name); err != nil {
			err = api.Errorf(api.CodeUsage, "cannot run %s: %w", name, err).
				WithHint("--editor takes the command-line program of the editor, such as …/bin/code")
		}
		return e, program, err
	}
	if known < 0 {
		return e, "", api.Errorf(api.CodeUsage, "unknown editor %q", name).
			WithHint("available: %s; or the path of another that is made from VS Code", Names())
	}
	if program = e.find(); program == "" {
		err = api.Errorf(api.CodeFailed, "%s is not installed: no program %q on the PATH or in the usual folders", e.Title, e.Command).
			WithHint("get it from %s; or name its program with --editor PATH", e.get)
	}
	return e, program, err
}

// Names lists the commands of all editors.
func Names() string {
	return strings.Join(lists.Map(All, func(e Editor) string { return e.Command }), ", ")
}

// links says where to get each editor, and what else it needs.
func links() string {
	links := lists.Map(All, func(e Editor) string {
		text := fmt.Sprintf("%s (%s)", e.Title, e.get)
		if e.Extension != "" {
			text += " with its extension " + e.Extension
		}
		return text
	})
	return strings.Join(links[:len(links)-1], ", ") + " or " + links[len(links)-1]
}

// find is the editor's program; "" if it is not installed.
func (e Editor) find() string {
	for _, name := range []string{e.Command, e.also} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	for _, folder := range []string{
		"/Applications", filepath.Join(os.Getenv("HOME"), "Applications"),
		filepath.Join(os.Getenv("LOCALAPPDATA"), "Programs"), os.Getenv("ProgramFiles"),
	} {
		if !filepath.IsAbs(folder) {
			continue // of another system; without its variable, it would be one of the current directory
		}
		for _, place := range e.places {
			if program, err := exec.LookPath(filepath.Join(folder, place)); err == nil {
				return program
			}
		}
	}
	return ""
}

// Typed is how the user types the editor's program: its name only if the PATH leads there.
func (e Editor) Typed(program string) string {
	if found, err := exec.LookPath(e.Command); err == nil && found == program {
		return e.Command
	}
	return `"` + program + `"`
}

// listTimeout bounds how long an editor may take to list its extensions.
const listTimeout = 10 * time.Second

// LacksExtension reports whether the editor is known to lack the extension that it needs.
func (e Editor) LacksExtension(ctx context.Context, program string) bool {
	if e.Extension == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--list-extensions").Output()
	return err == nil && !slices.ContainsFunc(strings.Fields(string(out)), func(id string) bool { return strings.EqualFold(id, e.Extension) })
}

// SettingsFile is the editor's own settings, which are never changed by tunctl.
func (e Editor) SettingsFile() string {
	dir, err := os.UserConfigDir()
	if err != nil || e.config == "" {
		return ""
	}
	return filepath.Join(dir, e.config, "User", "settings.json")
}

// HasSetting reports whether the editor's settings file has a key, whatever its value. The
// file may contain comments, so it is only searched.
func (e Editor) HasSetting(key string) bool {
	text, err := os.ReadFile(e.SettingsFile())
	return err == nil && strings.Contains(string(text), fmt.Sprintf("%q", key))
}

// OpenArguments are the editor's arguments for a file or a folder on a host of the ssh config.
func (e Editor) OpenArguments(host, path string, isFile bool) []string {
	if e.open != nil {
		return e.open(host, path)
	}
	kind := "--folder-uri"
	if isFile {
		kind = "--file-uri"
	}
	u := url.URL{Path: path}
	return []string{kind, "vscode-remote://ssh-remote+" + authority(host) + u.EscapedPath()}
}

// authority is a host within a URI. Editors turn the authority of a URI into lower case, so
// their own way to write a host with capital letters is used: JSON, as hexadecimal digits.
func authority(host string) string {
	if host == strings.ToLower(host) {
		return host
	}
	text, _ := json.Marshal(map[string]string{"hostName": host}) // strings can always be encoded
	return hex.EncodeToString(text)
}
