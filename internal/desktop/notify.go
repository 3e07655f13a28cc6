package desktop

import (
	_ "embed" // the scripts of Windows
	"fmt"
	"image"
)

// Note is a notification.
type Note struct {
	// Tag identifies the subject. A note replaces the one of the same tag that is still
	// shown, and Withdraw removes it. A note without a tag does neither.
	Tag     string
	Title   string
	Body    string
	Icon    *image.NRGBA // nil: none
	Urgent  bool         // stays until the user reacts
	Actions []Action     // buttons, if the desktop has them; the first is also a click on the note
}

// Action is what the user can do from a notification.
type Action struct {
	Label string
	Do    func() // called on the notifier's own goroutine: it must not block
}

// toastApp is the application of our notes on Windows: only an installed one may show
// any, and PowerShell always is installed.
const toastApp = `{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\WindowsPowerShell\v1.0\powershell.exe`

//go:embed toast.ps1
var toastScript string

//go:embed withdraw.ps1
var withdrawScript string

// noteProgram shows a note on macOS or Windows. The texts are arguments or in the
// environment, not part of the script.
func noteProgram(goos string, note Note) (argv, env []string) {
	if goos == "darwin" {
		return []string{
			"osascript", "-e", "on run argv",
			"-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
			note.Title, note.Body,
		}, nil
	}
	return powershell(toastScript), []string{
		"TUNCTL_NOTE_TITLE=" + note.Title, "TUNCTL_NOTE_BODY=" + note.Body,
		"TUNCTL_NOTE_TAG=" + toastTag(note.Tag), "TUNCTL_NOTE_APP=" + toastApp,
	}
}

// withdrawProgram removes a note; macOS allows that only to the user.
func withdrawProgram(goos, tag string) (argv, env []string) {
	if goos == "darwin" {
		return nil, nil
	}
	return powershell(withdrawScript), []string{"TUNCTL_NOTE_TAG=" + toastTag(tag), "TUNCTL_NOTE_APP=" + toastApp}
}

// toastTag shortens a tag to what Windows accepts.
func toastTag(tag string) string { return fmt.Sprintf("%.64s", tag) }
