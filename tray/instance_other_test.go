//go:build !(linux || freebsd || netbsd || openbsd)

package tray

import "testing"

func TestInstanceOfAHome(t *testing.T) {
	home := t.TempDir()
	first, err := acquireInstance(t.Context(), home)
	if err != nil || first == nil {
		t.Fatalf("the first: %v, %v", first, err)
	}
	if second, err := acquireInstance(t.Context(), home); err != nil || second != nil {
		t.Errorf("a second one: %v, %v", second, err)
	}
	other, err := acquireInstance(t.Context(), t.TempDir())
	if err != nil || other == nil {
		t.Fatalf("one of another home: %v, %v", other, err)
	}
	other.release()
	first.release()
	again, err := acquireInstance(t.Context(), home)
	if err != nil || again == nil {
		t.Fatalf("one after the first has ended: %v, %v", again, err)
	}
	again.release()
}
