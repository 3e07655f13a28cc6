package desktop

import (
	"reflect"
	"slices"
	"testing"
)

func TestWhichBrowserIsTriedFirst(t *testing.T) {
	const url = "http://127.0.0.1:1/x"
	tests := []struct {
		name string
		goos string
		env  environ
		want []string // the first; nil: none at all
	}{
		{"a desktop", "linux", environ{"DISPLAY": ":0"}, []string{"xdg-open", url}},
		{"wayland", "linux", environ{"WAYLAND_DISPLAY": "wayland-0"}, []string{"xdg-open", url}},
		{"headless", "linux", environ{}, nil},
		{"a chosen one", "linux", environ{"BROWSER": "w3m"}, []string{"w3m", url}},
		{"a chosen one with a place for the address", "linux", environ{"BROWSER": "::links -g %s -x"}, []string{"links", "-g", url, "-x"}},
		{"WSL", "linux", environ{"WSL_DISTRO_NAME": "Debian", "DISPLAY": ":0"}, []string{"wslview", url}},
		{"WSL with a chosen one", "linux", environ{"WSL_INTEROP": "/run/x", "BROWSER": "b"}, []string{"b", url}},
		{"macOS", "darwin", environ{}, []string{"open", url}},
		{"Windows", "windows", environ{}, []string{"rundll32.exe", "url.dll,FileProtocolHandler", url}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			if list := browsers(tt.goos, tt.env, url); len(list) > 0 {
				got = list[0]
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestATerminalGetsTheWordsWhole(t *testing.T) {
	argv := []string{"/opt/my tools/tunctl", "logs", "it's"}
	for _, list := range terminals("linux", environ{"DISPLAY": ":0", "TERMINAL": "urxvt"}, argv) {
		if !slices.Equal(list[len(list)-3:], argv) {
			t.Errorf("%q does not end in %q", list, argv)
		}
	}
	mac := terminals("darwin", environ{}, argv)[0]
	if got, want := mac[len(mac)-1], `'/opt/my tools/tunctl' 'logs' 'it'\''s'`; got != want {
		t.Errorf("the line for macOS is %s, want %s", got, want)
	}
	if got := terminals("linux", environ{}, argv); got != nil {
		t.Errorf("without a display there are terminals: %q", got)
	}
}
