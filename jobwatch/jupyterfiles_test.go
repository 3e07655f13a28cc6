package jobwatch

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestRuntimeFilesSinceTheJobsStartAreFound(t *testing.T) {
	m := newMachine(t)
	dir := ".local/share/jupyter/runtime/"
	if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for name, age := range map[string]time.Duration{
		"jpserver-1.json": time.Hour, "jpserver-2.json": -time.Second, "nbserver-3.json": -2 * time.Second, "kernel-4.json": -time.Second, "jpserver-2-open.html": -time.Second,
	} {
		m.file(t, dir+name, "{}")
		if err := os.Chtimes(m.path(dir+name), start, start.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := FindRuntimeFiles(t.Context(), m, start)
	if want := []string{m.path(dir + "nbserver-3.json"), m.path(dir + "jpserver-2.json")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
