package transfer

import (
	"os"
	"slices"
	"testing"
)

func TestAListingMarksFoldersAndLinksToThem(t *testing.T) {
	s := newServer(t)
	for _, dir := range []string{"results", "reports"} {
		if err := os.Mkdir(s.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("results", s.path("recent")); err != nil {
		t.Skip(err)
	}
	for _, file := range []string{"readme", "other"} {
		if err := os.WriteFile(s.path(file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := s.dial(t.Context(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	names, err := List(t.Context(), stream, ".", "re")
	slices.Sort(names)
	if want := []string{"readme", "recent/", "reports/", "results/"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("got %q, %v; want %q", names, err, want)
	}
}
