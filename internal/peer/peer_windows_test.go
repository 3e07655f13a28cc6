package peer

import "testing"

func TestNetstatNamesTheListener(t *testing.T) {
	const out = `
Aktive Verbindungen

  Proto  Lokale Adresse         Remoteadresse          Status           PID
  TCP    127.0.0.1:50000        127.0.0.1:8888         HERGESTELLT      7
  TCP    127.0.0.1:8888         127.0.0.1:50000        HERGESTELLT      8
  TCP    127.0.0.1:8888         0.0.0.0:0              ABHÖREN          4242
  TCP    [::]:445               [::]:0                 ABHÖREN          4
`
	for port, want := range map[int]int{8888: 4242, 445: 4, 50000: 0, 1: 0} {
		if got := netstatListener(out, port); got != want {
			t.Errorf("port %d: pid %d, want %d", port, got, want)
		}
	}
}
