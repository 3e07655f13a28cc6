package forward

import (
	"net"
	"testing"
)

func TestAClosedForwardFreesItsPortWhileAProgramIsBeingStarted(t *testing.T) {
	f := open(t, ListenOptions{})
	for _, l := range f.local.listeners {
		held, err := l.(*net.TCPListener).File() // as that program has it
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Close() }()
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if again := open(t, ListenOptions{Last: f.Port()}); again.Port() != f.Port() || again.URLHost() != f.URLHost() {
		t.Errorf("at %s, and then at %s: %s", f.URLHost(), again.URLHost(), again.Note())
	}
}
