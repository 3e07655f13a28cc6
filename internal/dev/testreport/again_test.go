package main

import (
	"slices"
	"strings"
	"testing"
)

func TestOnlyFewTestsThatAreKnownRunAgain(t *testing.T) {
	many := failures{}
	for i := range 21 {
		many.add(test{"p", "Test" + strings.Repeat("X", i)})
	}
	for want, list := range map[bool][]failures{
		true:  {{"p": {"TestA"}}, {"p": {"TestA"}, "q": {"TestB"}}},
		false: {{}, {"p": {"TestA", ""}}, many},
	} {
		for _, f := range list {
			if f.few() != want {
				t.Errorf("%v: not %v", f, want)
			}
		}
	}
}

func TestATestRunsAgainAloneWithTheFlagsOfTheFirstRun(t *testing.T) {
	f := failures{}
	for _, name := range []string{"TestA/part", "TestA", "TestB"} {
		f.add(test{"tunctl/tray", name})
	}
	got := alone([]string{"go", "test", "-json", "-p", "3", "tunctl/internal/dev/e2e", "./..."}, "tunctl/tray", f["tunctl/tray"])
	want := []string{"go", "test", "-json", "-p", "3", "-parallel", "1", "-run", "^(TestA|TestB)$", "tunctl/tray"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestTheShareThatTheHostTookIsReadFromProcStat(t *testing.T) {
	before := parseProcessors("cpu  100 0 0 100 0 0 0 0 0 0\ncpu0 1\n")
	later := parseProcessors("cpu  150 0 0 110 0 0 0 40 0 0\n")
	if got := before.waitedFor(later); got != 0.4 {
		t.Errorf("%v", got)
	}
	if got := (processors{}).waitedFor(parseProcessors("intr 1 2")); got != 0 {
		t.Errorf("without figures: %v", got)
	}
}

func TestWhatAPackageLacksWhenItFailsAsAWholeIsNotGuessed(t *testing.T) {
	r := newReport(new(strings.Builder))
	r.packageOver(event{Action: "fail", Package: "p"})
	if r.failures.few() {
		t.Errorf("%v", r.failures)
	}
}
