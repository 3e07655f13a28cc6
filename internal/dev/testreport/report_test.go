package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// told is the report about events.
func told(t *testing.T, good bool, events ...event) string {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		r.line(append(text, '\n'))
	}
	r.end(90*time.Second, 3*time.Minute, good)
	return out.String()
}

func TestAPackageThatPassesIsOneLineAndWhatItSaidIsNotShown(t *testing.T) {
	got := told(t, true,
		event{Action: "run", Package: "p", Test: "TestA"},
		event{Action: "output", Package: "p", Test: "TestA", Output: "chatter\n"},
		event{Action: "pass", Package: "p", Test: "TestA", Elapsed: 1.25},
		event{Action: "output", Package: "p", Output: "PASS\n"},
		event{Action: "output", Package: "p", Output: "ok  \tp\t1.30s\n"},
		event{Action: "pass", Package: "p", Elapsed: 1.3},
	)
	want := "ok  \tp\t1.30s\n\nThe slowest tests:\n     1.2 s  p TestA\n\n1 tests and parts of tests passed, 0 failed, 0 were not run; 1m30s, and 3m0s of processors\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestWhatFailedIsShownInFullAndWhatPassedBesideItIsNot(t *testing.T) {
	got := told(t, false,
		event{Action: "output", Package: "p", Test: "TestGood", Output: "all is well\n"},
		event{Action: "pass", Package: "p", Test: "TestGood"},
		event{Action: "output", Package: "p", Test: "TestBad", Output: "    p_test.go:3: wrong\n"},
		event{Action: "output", Package: "p", Test: "TestBad", Output: "--- FAIL: TestBad (0.00s)\n"},
		event{Action: "fail", Package: "p", Test: "TestBad"},
		event{Action: "output", Package: "p", Output: "FAIL\n"},
		event{Action: "output", Package: "p", Output: "FAIL\tp\t0.10s\n"},
		event{Action: "fail", Package: "p"},
	)
	if !strings.HasPrefix(got, "    p_test.go:3: wrong\n--- FAIL: TestBad (0.00s)\nFAIL\nFAIL\tp\t0.10s\n") {
		t.Errorf("got:\n%s", got)
	}
	if strings.Contains(got, "all is well") || !strings.HasSuffix(got, "all of it is above:\n  p TestBad\n    p_test.go:3: wrong\n\n1 tests and parts of tests passed, 1 failed, 0 were not run; 1m30s, and 3m0s of processors\nFAIL\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestATestThatAPanicEndedIsShownAndCounted(t *testing.T) {
	got := told(t, false,
		event{Action: "run", Package: "p", Test: "TestA"},
		event{Action: "output", Package: "p", Test: "TestA", Output: "panic: oh\n"},
		event{Action: "output", Package: "p", Output: "FAIL\tp\t0.10s\n"},
		event{Action: "fail", Package: "p"},
	)
	if !strings.HasPrefix(got, "panic: oh\nFAIL\tp\t0.10s\n") || !strings.Contains(got, " 1 failed") {
		t.Errorf("got:\n%s", got)
	}
}

func TestWhatWasNotRunIsATableByReason(t *testing.T) {
	var events []event
	skip := func(pkg, name, why string) {
		events = append(events,
			event{Action: "output", Package: pkg, Test: name, Output: "    x_test.go:12: " + why + "\n"},
			event{Action: "output", Package: pkg, Test: name, Output: "--- SKIP: " + name + " (0.00s)\n"},
			event{Action: "skip", Package: pkg, Test: name})
	}
	skip("tunctl/e2e", "TestA", "real parts: not root")
	skip("tunctl/e2e", "TestB", "real parts: not root")
	skip("tunctl/lab", "TestC", "no PBS")
	got := told(t, true, events...)
	want := `
Not run:
  TESTS  WHERE             WHY
  1      tunctl/lab TestC  no PBS
  2      tunctl/e2e        real parts: not root

0 tests and parts of tests passed, 0 failed, 3 were not run; 1m30s, and 3m0s of processors
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestATestIsNotNamedAsSlowForTheTimeOfItsParts(t *testing.T) {
	got := told(t, true,
		event{Action: "run", Package: "p", Test: "TestA"},
		event{Action: "run", Package: "p", Test: "TestA/part"},
		event{Action: "pass", Package: "p", Test: "TestA/part", Elapsed: 3},
		event{Action: "pass", Package: "p", Test: "TestA", Elapsed: 9},
	)
	if !strings.Contains(got, "The slowest tests:\n     3.0 s  p TestA/part\n\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestABuildThatFailsIsShown(t *testing.T) {
	got := told(t, false,
		event{Action: "build-output", Output: "./x.go:1: undefined: y\n"},
		event{Action: "output", Package: "p", Output: "FAIL\tp [build failed]\n"},
		event{Action: "fail", Package: "p"},
	)
	if !strings.HasPrefix(got, "./x.go:1: undefined: y\nFAIL\tp [build failed]\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	r.progress(30 * time.Second)
	for _, line := range []string{
		`{"Action":"start","Package":"p"}`, `{"Action":"start","Package":"q"}`, `{"Action":"start","Package":"r"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`, `{"Action":"skip","Package":"q","Test":"TestB"}`, `{"Action":"pass","Package":"q"}`,
	} {
		r.line([]byte(line + "\n"))
	}
	r.progress(time.Minute)
	if got, want := out.String(), "30s, 0 tests are over; tests are being compiled\n1m0s, 2 tests are over; running: p, r\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
