package main

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
)

// editor is VS Code or one of its relatives.
type editor struct {
	command string // on the PATH
	title   string
	get     string // where to get it
	// extension is what it connects over ssh with; "" if it comes with its own.
	extension string
	config    string    // the folder of its settings
	settings  []setting // that work inside a job needs
	places    []string  // below programFolders, if it is not on the PATH
}

// setting is a setting of an editor, and why it helps.
type setting struct{ key, value, why string }

// editors are those that `tunctl code` looks for, in this order.
var editors = []editor{
	{
		command: "code", title: "VS Code", get: "https://code.visualstudio.com", extension: "ms-vscode-remote.remote-ssh", config: "Code",
		settings: []setting{
			{"remote.SSH.localServerDownload", `"always"`, "nodes without internet: the editor's server is downloaded here and copied"},
			{"remote.SSH.lockfilesInTmp", "true", "the home folder is shared by many nodes"},
		},
		places: []string{"Visual Studio Code.app/Contents/Resources/app/bin/code", `Microsoft VS Code\bin\code.cmd`},
	},
	{
		command: "cursor", title: "Cursor", get: "https://cursor.com", config: "Cursor",
		places: []string{"Cursor.app/Contents/Resources/app/bin/cursor", `cursor\resources\app\bin\cursor.cmd`},
	},
	{
		command: "codium", title: "VSCodium", get: "https://vscodium.com", extension: "jeanp413.open-remote-ssh", config: "VSCodium",
		places: []string{"VSCodium.app/Contents/Resources/app/bin/codium", `VSCodium\bin\codium.cmd`},
	},
	{
		command: "positron", title: "Positron", get: "https://positron.posit.co", config: "Positron",
		places: []string{"Positron.app/Contents/Resources/app/bin/positron", "Positron.app/Contents/Resources/app/bin/code", `Positron\bin\positron.cmd`},
	},
}

// findEditor is the editor of that name or path, or the first that is installed for "", and
// its program.
func findEditor(name string) (e editor, program string, err error) {
	if name == "" {
		for _, e := range editors {
			if program := e.find(); program != "" {
				return e, program, nil
			}
		}
		return e, "", api.Errorf(api.CodeFailed, "no editor is installed that can work inside a job: %s", editorNames()).
			WithHint("install %s; or name its program with --editor PATH", editorLinks())
	}
	base := strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".cmd")
	known := slices.IndexFunc(editors, func(e editor) bool { return e.command == base })
	e = editor{command: base, title: name}
	if known >= 0 {
		e = editors[known]
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
			WithHint("available: %s; or the path of another that is made from VS Code", editorNames())
	}
	if program = e.find(); program == "" {
		err = api.Errorf(api.CodeFailed, "%s is not installed: no program %q on the PATH or in the usual folders", e.title, e.command).
			WithHint("get it from %s; or name its program with --editor PATH", e.get)
	}
	return e, program, err
}

// editorNames lists the commands of all editors.
func editorNames() string {
	names := make([]string, len(editors))
	for i, e := range editors {
		names[i] = e.command
	}
	return strings.Join(names, ", ")
}

// editorLinks says where to get each editor, and what else it needs.
func editorLinks() string {
	links := make([]string, len(editors))
	for i, e := range editors {
		links[i] = fmt.Sprintf("%s (%s)", e.title, e.get)
		if e.extension != "" {
			links[i] += " with its extension " + e.extension
		}
	}
	return strings.Join(links[:len(links)-1], ", ") + " or " + links[len(links)-1]
}

// find is the editor's program; "" if it is not installed.
func (e editor) find() string {
	if program, err := exec.LookPath(e.command); err == nil {
		return program
	}
	// Without its variable, a folder would be one of the current directory.
	for _, folder := range slices.DeleteFunc(programFolders(), func(folder string) bool { return !filepath.IsAbs(folder) }) {
		for _, place := range e.places {
			if program, err := exec.LookPath(filepath.Join(folder, place)); err == nil {
				return program
			}
		}
	}
	return ""
}

// typed is how a person types the editor's program: its name only if the PATH leads there.
func (e editor) typed(program string) string {
	if found, err := exec.LookPath(e.command); err == nil && found == program {
		return e.command
	}
	return `"` + program + `"`
}

// listTimeout bounds how long an editor may take to list its extensions.
const listTimeout = 10 * time.Second

// lacksExtension reports whether the editor is known to lack the extension that it needs.
func (e editor) lacksExtension(ctx context.Context, program string) bool {
	if e.extension == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--list-extensions").Output()
	return err == nil && !slices.ContainsFunc(strings.Fields(string(out)), func(id string) bool { return strings.EqualFold(id, e.extension) })
}

// settingsFile is the editor's own settings, which are never changed by tunctl.
func (e editor) settingsFile() string {
	dir, err := os.UserConfigDir()
	if err != nil || e.config == "" {
		return ""
	}
	return filepath.Join(dir, e.config, "User", "settings.json")
}

// hasSetting reports whether the editor's settings file has a key, whatever its value. The
// file may contain comments, so it is only searched.
func (e editor) hasSetting(key string) bool {
	text, err := os.ReadFile(e.settingsFile())
	return err == nil && strings.Contains(string(text), fmt.Sprintf("%q", key))
}

// openArguments are the editor's arguments for a file or a folder on a host of the ssh config.
func openArguments(host, path string, isFile bool) []string {
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
