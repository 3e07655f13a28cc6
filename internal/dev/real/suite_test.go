package real

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// judged records what a test was told. Skip and Fatal end the goroutine, as real
// ones do.
type judged struct {
	testing.TB
	skipped, failed bool
}

func (*judged) Helper()                 {}
func (*judged) Name() string            { return "TestOnRealParts" }
func (j *judged) Skip(...any)           { j.skipped = true; panic(j) }
func (j *judged) Fatalf(string, ...any) { j.failed = true; panic(j) }

func judge(s *suite, wanted bool, lacking error) (j *judged) {
	j = &judged{}
	defer func() { _ = recover() }()
	s.need(j, wanted, func() error { return lacking })
	return j
}

func TestSkippedTestIsToldLoudlyAndFailsWhereItIsWanted(t *testing.T) {
	lacking := errors.New("missing: slurmd: run internal/dev/install.sh slurm")
	for _, x := range []struct {
		name            string
		wanted          bool
		lacking         error
		skipped, failed bool
		report          string
	}{
		{"not asked for", false, nil, true, false, "REAL PARTS SKIPPED: TestOnRealParts: TUNCTL_REAL is not 1\n"},
		{"not asked for, and lacking", false, lacking, true, false, "REAL PARTS SKIPPED: TestOnRealParts: " + lacking.Error() + "\n"},
		{"asked for, and lacking", true, lacking, false, true, ""},
		{"asked for", true, nil, false, false, "real parts: 1 tests ran"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &suite{ran: map[string]bool{}}
			j := judge(s, x.wanted, x.lacking)
			if j.skipped != x.skipped || j.failed != x.failed {
				t.Errorf("skipped %v, failed %v", j.skipped, j.failed)
			}
			var b bytes.Buffer
			s.report(&b)
			if !strings.HasPrefix(b.String(), x.report) || x.report == "" && b.Len() > 0 {
				t.Errorf("the report says %q; want %q", b.String(), x.report)
			}
		})
	}
}

func TestALabIsOneTestsAndItsPartsUntilItEnds(t *testing.T) {
	o := Options{GridEngine: true} // whose jobs the next test does not mind
	free := &Cluster{options: o}
	s := &suite{free: map[Options][]*Cluster{o: {free}}, held: map[holding]*Cluster{}}
	take := func(t *testing.T) *Cluster {
		t.Helper()
		c, err := s.acquire(t, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("test", func(t *testing.T) {
		if first, second := take(t), take(t); first != free || second != free {
			t.Error("a test has not the same lab twice")
		}
		t.Run("part", func(t *testing.T) {
			if take(t) != free {
				t.Error("a part of a test has not the test's lab")
			}
		})
		if c := s.takeFree(o); c != nil {
			t.Error("the end of a part frees the lab of its test")
		}
		if c := s.heldBy("TestOfAnother/test", o); c != nil {
			t.Error("another test has it, too")
		}
	})
	if s.takeFree(o) != free || len(s.held) > 0 {
		t.Error("the end of a test does not free its lab")
	}
}
