package real

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCodesAreThoseOfRFC6238(t *testing.T) {
	// The last six of the eight digits of appendix B.
	for seconds, want := range map[int64]string{59: "287082", 1111111109: "081804", 20000000000: "353130"} {
		if got := codeAt(seconds / 30); got != want {
			t.Errorf("at %d: %s; want %s", seconds, got, want)
		}
	}
}

func TestNoCodeIsHandedOutTwice(t *testing.T) {
	now := time.Unix(3000, 0) // step 100
	for _, x := range []struct {
		last, want int64
		wait       time.Duration
	}{
		{0, 100, 0},
		{99, 100, 0},
		{100, 101, 0},
		{100 + codeWindow - 1, 100 + codeWindow, 0},
		{100 + codeWindow, 101 + codeWindow, 30 * time.Second},
	} {
		if got, wait := nextStep(now, x.last); got != x.want || wait != x.wait {
			t.Errorf("after %d comes %d in %v; want %d in %v", x.last, got, wait, x.want, x.wait)
		}
	}
}

func TestProcessNamesMayHoldAnything(t *testing.T) {
	rest := " S 42 " + strings.Repeat("0 ", 17) + "777 0 0"
	for _, name := range []string{"sshd", "a b", "x) S (1"} {
		got, err := parseStat("7 (" + name + ")" + rest)
		if err != nil || got.name != name || got.parent != 42 || got.start != 777 || got.state != "S" {
			t.Errorf("%q reads as %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "7 sshd S", "7 (sshd) S 1"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestListenerIsFoundByPortAndState(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue
   0: 0100007F:1AA1 00000000:0000 0A 00000000:00000000
   1: 0100007F:1AA2 0100007F:0016 01 00000000:00000000
`
	for port, want := range map[int]bool{6817: true, 6818: false, 22: false} {
		if got := listens(table, port); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
}

func TestInnerNumberOfAProcessIsTheLast(t *testing.T) {
	for status, want := range map[string]int{"Name:\tsshd\nNSpid:\t4711\t12\n": 12, "NSpid:\t4711\n": 4711, "Name:\tx\n": 0} {
		if got := innerPID(status); got != want {
			t.Errorf("%q: %d; want %d", status, got, want)
		}
	}
}

func TestLabUsersReplaceTheMachines(t *testing.T) {
	got := withUsers("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n", user.passwd)
	if strings.Contains(got, "1000") || !strings.Contains(got, "alice:x:2002:") || !strings.HasPrefix(got, "root:x:0:0") {
		t.Errorf("passwd is\n%s", got)
	}
}

func TestSlotsShareNoAddress(t *testing.T) {
	for slot := range slots - 1 {
		a, b := plan{slot}, plan{slot + 1}
		if a.prefix().Overlaps(b.prefix()) || a.device() == b.device() || len(a.delayed()) > 15 {
			t.Errorf("slots %d and %d: %s %s", slot, slot+1, a.prefix(), b.prefix())
		}
	}
	last := plan{slots - 1}
	if got := last.router(lan).String(); got != "10.77.255.254" {
		t.Errorf("the last address is %s", got)
	}
}

func TestPacketsComeLateAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := pipe(), pipe()
		go func() { _ = passOn(out, in, 50*time.Millisecond, 0); out.close() }()
		began := time.Now()
		for _, word := range []string{"one", "two"} {
			in.packets <- []byte(word)
		}
		for _, want := range []string{"one", "two"} {
			got := string(<-out.packets)
			if took := time.Since(began); got != want || took != 50*time.Millisecond {
				t.Errorf("%q came after %v; want %q", got, took, want)
			}
		}
		in.close()
	})
}

func TestLostPacketsDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := pipe(), pipe()
		go func() { _ = passOn(out, in, time.Millisecond, 100); out.close() }()
		for range 10 {
			in.packets <- []byte("x")
		}
		in.close()
		if got, ok := <-out.packets; ok {
			t.Errorf("%q came", got)
		}
	})
}

// wire is a device that carries packets.
type wire struct{ packets chan []byte }

func pipe() *wire { return &wire{make(chan []byte, 16)} }

func (w *wire) close() { close(w.packets) }

func (w *wire) Read(b []byte) (int, error) {
	p, ok := <-w.packets
	if !ok {
		return 0, io.EOF
	}
	return copy(b, p), nil
}

func (w *wire) Write(b []byte) (int, error) {
	w.packets <- b
	return len(b), nil
}
