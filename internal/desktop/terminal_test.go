package desktop

import (
	"slices"
	"testing"
)

func TestATerminalGetsTheWordsWhole(t *testing.T) {
	argv := []string{"/opt/my tools/tunctl", "logs", "it's"}
	setenv(t, environment{"DISPLAY": ":0", "TERMINAL": "urxvt"})
	for _, list := range terminals("linux", argv) {
		if !slices.Equal(list[len(list)-3:], argv) {
			t.Errorf("%q does not end in %q", list, argv)
		}
	}
	mac := terminals("darwin", argv)[0]
	if got, want := mac[len(mac)-1], `'/opt/my tools/tunctl' 'logs' 'it'\''s'`; got != want {
		t.Errorf("the line for macOS is %s, want %s", got, want)
	}
	setenv(t, nil)
	if got := terminals("linux", argv); got != nil {
		t.Errorf("without a display there are terminals: %q", got)
	}
}
