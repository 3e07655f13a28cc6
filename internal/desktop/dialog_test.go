package desktop

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/testprogram"
)

// dialogEnv sets an environment whose PATH has only the given programs, as shell scripts, and
// returns their folder.
func dialogEnv(t *testing.T, programs map[string]string) (dir string) {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("dialogs here are the system's own")
	}
	dir = t.TempDir()
	for name, script := range programs {
		must.Do(t, testprogram.Write(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n")))
	}
	setenv(t, environment{"DISPLAY": ":0", "PATH": dir})
	return dir
}

func TestAsk(t *testing.T) {
	const noDisplay = "echo 'cannot open display: :0' >&2; exit 1"
	tests := []struct {
		name     string
		programs map[string]string
		kind     QuestionKind
		want     string
		err      error
	}{
		{"a secret with blanks", map[string]string{"zenity": "echo ' s3 cret '"}, AskSecret, " s3 cret ", nil},
		{"cancelled", map[string]string{"zenity": "exit 1", "kdialog": "echo never"}, AskSecret, "", ErrCancelled},
		{"cancelled among warnings", map[string]string{"zenity": "echo 'Gdk-WARNING: the display has no alpha' >&2; exit 1"}, AskSecret, "", ErrCancelled},
		{"yes", map[string]string{"zenity": "exit 0"}, AskChoice, "yes", nil},
		{"no", map[string]string{"zenity": "exit 1"}, AskChoice, "", ErrCancelled},
		{"only the other program", map[string]string{"kdialog": "echo code"}, AskLine, "code", nil},
		{"the first one has no display", map[string]string{"zenity": noDisplay, "kdialog": "echo code"}, AskLine, "code", nil},
		{"none works", map[string]string{"zenity": noDisplay}, AskLine, "", ErrUnavailable},
		{"none there", nil, AskLine, "", ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dialogEnv(t, tt.programs)
			if got := CanAsk(); got != (len(tt.programs) > 0) {
				t.Errorf("CanAsk = %v", got)
			}
			got, err := Ask(t.Context(), Question{Title: "narval", Text: "Password:", Kind: tt.kind})
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v, want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestAskContextEnd(t *testing.T) {
	dialogEnv(t, map[string]string{"zenity": "exec /bin/sleep 60"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Ask(ctx, Question{Text: "Password:"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAskWithoutDisplay(t *testing.T) {
	dialogEnv(t, map[string]string{"zenity": "echo never"})
	t.Setenv("DISPLAY", "")
	if CanAsk() {
		t.Error("a window without a display")
	}
}

func TestDialogText(t *testing.T) {
	setenv(t, environment{"DISPLAY": ":0"})
	const text = "Its key is\n\nSHA256:4lTf+aV9_x/Bq\\0\n\nTrust it?"
	for _, kind := range []QuestionKind{AskSecret, AskLine, AskChoice} {
		q := Question{Title: "Is this narval?", Text: text, Kind: kind, Yes: "Yes, trust it", No: "No, stop"}
		for _, system := range []struct {
			goos   string
			escape *strings.Replacer
		}{
			{"linux", strings.NewReplacer(`\`, `\\`, "_", map[bool]string{true: "_", false: "__"}[kind == AskChoice])},
			{"darwin", strings.NewReplacer()},
			{"windows", strings.NewReplacer("\n", "\r\n")},
		} {
			d := dialogs(system.goos, q)[0]
			words := slices.Clone(d.argv)
			words = append(words, d.env...)
			want := system.escape.Replace(text)
			if !slices.ContainsFunc(words, func(w string) bool {
				return strings.TrimPrefix(strings.TrimPrefix(w, "--text="), "TUNCTL_ASK_TEXT=") == want
			}) {
				t.Errorf("%s: no %q in %q", system.goos, want, words)
			}
		}
	}
}

func TestDialogOfALink(t *testing.T) {
	setenv(t, environment{"DISPLAY": ":0"})
	const link = "https://login.example.org/device?user_code=WDJB-MJHT"
	for _, kind := range []QuestionKind{AskSecret, AskLine, AskChoice} {
		for _, value := range []string{"", link} {
			q := Question{Title: "Log in to narval", Text: "Open this page:\n\n" + link, Kind: kind, Value: value}
			for _, goos := range []string{"linux", "darwin", "windows"} {
				for _, d := range dialogs(goos, q) {
					shown := ""
					for d := &d; d != nil; d = d.before {
						if words := strings.Join(d.argv, " "); strings.Contains(words, "WDJB") {
							t.Errorf("%s, kind %d: %q", goos, kind, words)
						}
						shown += d.stdin + strings.Join(d.env, " ")
					}
					if !strings.Contains(shown, link) {
						t.Errorf("%s, kind %d: %s does not show it", goos, kind, d.argv[0])
					}
				}
			}
		}
	}
}

func TestAskAfterText(t *testing.T) {
	for tool, exit := range map[string]string{"zenity": "0", "kdialog": "1"} {
		dir := dialogEnv(t, map[string]string{tool: `case "$*" in *--text-info*|*--textbox*) while read -r line; do echo "$line" >>$0.shown; done; exit ` + exit + `;; *) echo 123;; esac`})
		got, err := Ask(t.Context(), Question{Text: "Get a code at https://example.org\n", Kind: AskLine})
		shown, _ := os.ReadFile(filepath.Join(dir, tool+".shown"))
		if got != "123" || err != nil || string(shown) != "Get a code at https://example.org\n" {
			t.Errorf("%s: %q, %v; shown: %q", tool, got, err, shown)
		}
	}
}

func TestDialogOfKDE(t *testing.T) {
	setenv(t, environment{"DISPLAY": ":0", "XDG_CURRENT_DESKTOP": "KDE"})
	list := dialogs("linux", Question{Text: "<b>"})
	if list[0].argv[0] != "kdialog" || slices.Contains(list[0].argv, "<b>") {
		t.Errorf("first comes %q", list[0].argv)
	}
}

func TestDialogAnswer(t *testing.T) {
	d := powershellDialog(Question{})
	if got, err := d.answer(base64.StdEncoding.EncodeToString([]byte("pässword")) + "\r\n"); got != "pässword" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if !d.cancelled(3, "") || d.cancelled(1, "") {
		t.Error("PowerShell's own failure is taken for a cancelled dialog, or the other way round")
	}
	if m := osascriptDialog(Question{}); !m.cancelled(1, "execution error: User canceled. (-128)") || m.cancelled(1, "(-1713)") {
		t.Error("a failing script is taken for a cancelled dialog, or the other way round")
	}
}

func TestDialogHostileText(t *testing.T) {
	if got, want := printable("1.\tPass\x1b[2Jword\u202e:\n\x00"), "1. Password:\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoteProgram(t *testing.T) {
	note := Note{Tag: "ready:" + strings.Repeat("x", 100), Title: `it's "ready"`, Body: "$(calc)"}
	mac, _ := noteProgram("darwin", note)
	if !slices.Equal(mac[len(mac)-2:], []string{note.Title, note.Body}) {
		t.Errorf("macOS: %q", mac)
	}
	win, env := noteProgram("windows", note)
	tag := "TUNCTL_NOTE_TAG=" + note.Tag[:64]
	if !slices.Contains(env, "TUNCTL_NOTE_TITLE="+note.Title) || !slices.Contains(env, tag) {
		t.Errorf("Windows: %q", env)
	}
	if slices.Contains(win, note.Title) || len(strings.Join(win, " ")) > 8000 {
		t.Errorf("Windows: %q", win)
	}
	if _, away := withdrawProgram("windows", note.Tag); !slices.Contains(away, tag) {
		t.Errorf("another tag is withdrawn: %q", away)
	}
	if away, _ := withdrawProgram("darwin", note.Tag); len(away) != 0 {
		t.Errorf("macOS takes nothing away: %q", away)
	}
}

func TestDialogLongLines(t *testing.T) {
	fingerprint := "SHA256:" + strings.Repeat("x", 70)
	q := Question{Kind: AskChoice, Text: "Its key is\n\n" + fingerprint + "\n\n" + strings.Repeat("word ", 20) + "end"}
	want := "--text=Its key is\n\n" + fingerprint + "\n\n" + strings.Repeat("word ", 12) + "word\n" + strings.Repeat("word ", 7) + "end"
	if got := zenity(q).argv; !slices.Contains(got, want) {
		t.Errorf("got %q", got)
	}
}
