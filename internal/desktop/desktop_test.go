package desktop

import "testing"

func TestProgramsAreFoundWhateverWindowsCallsThePath(t *testing.T) {
	for goos, want := range map[string]string{"windows": `C:\Windows`, "linux": ""} {
		if got := readEnviron(goos, []string{`Path=C:\Windows`, "nonsense"})["PATH"]; got != want {
			t.Errorf("%s: PATH is %q, want %q", goos, got, want)
		}
	}
}
