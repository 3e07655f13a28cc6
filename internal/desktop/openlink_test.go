package desktop

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestALinkIsHandedToTheDesktopsProgramForIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("xdg-open is asked on Linux")
	}
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	script := "#!/bin/sh\nprintf '%s' \"$1\" >" + seen + ".new && mv " + seen + ".new " + seen + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	err := openLink(t.Context(), "vnc://localhost:5901/", OpenOptions{Env: api.Env{"DISPLAY": ":0", "PATH": dir + ":/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	until(t, "xdg-open ran", func() bool { // openLink need not wait for its end
		got, err = os.ReadFile(seen)
		return err == nil
	})
	if string(got) != "vnc://localhost:5901/" {
		t.Errorf("xdg-open was given %q", got)
	}
}

func TestALinkWithASecretIsNotPutOnACommandLine(t *testing.T) {
	for _, link := range []string{"vnc://ann:s3cr3t@localhost:5901/", "http://localhost:8888/lab?token=s3cr3t", "localhost"} {
		err := openLink(t.Context(), link, OpenOptions{Env: api.Env{"DISPLAY": ":0"}})
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("openLink(%q): %v", link, err)
		}
	}
}

func TestWithoutADesktopALinkIsLeftToThePerson(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems always have a desktop")
	}
	if err := openLink(t.Context(), "vnc://localhost:5901/", OpenOptions{Env: api.Env{}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
