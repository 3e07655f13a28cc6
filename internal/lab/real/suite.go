package real

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

// suite is what the tests of one process share: the labs they started, and which
// of them were skipped and why.
type suite struct {
	mu      sync.Mutex
	labs    map[Options]*Cluster
	took    []time.Duration
	ran     map[string]bool
	skipped []skip
}

type skip struct{ test, why string }

// shared is the one variable of this package: a test knows its process only, so
// what a process shares has no other place.
var shared = &suite{labs: map[Options]*Cluster{}, ran: map[string]bool{}}

// Wanted reports whether tests on real parts were asked for. A plain "go test"
// stays quick and needs nothing.
func Wanted() bool { return os.Getenv("TUNCTL_REAL") == "1" || os.Getenv("CI") == "true" }

// Need skips a test unless tests on real parts were asked for, with TUNCTL_REAL=1
// or CI=true, and fails it if the machine then lacks one of the groups of parts
// that install.sh knows.
func Need(t testing.TB, groups ...string) {
	t.Helper()
	shared.need(t, Wanted(), func() error { return Check(groups...) })
}

func (s *suite) need(t testing.TB, wanted bool, check func() error) {
	t.Helper()
	if !wanted {
		why := "TUNCTL_REAL is not 1"
		if err := check(); err != nil {
			why = err.Error()
		}
		s.skip(t.Name(), why)
		t.Skip("real parts: " + why)
	}
	if err := check(); err != nil {
		t.Fatalf("real parts are wanted here, but: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran[t.Name()] = true
}

func (s *suite) skip(test, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = append(s.skipped, skip{test, why})
}

// lab starts the lab with these options, or finds the one that is up.
func (s *suite) lab(t testing.TB, o Options) (*Cluster, error) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.labs[o]; c != nil {
		return c, nil
	}
	began := time.Now()
	c, err := Up(fmt.Sprintf("test-%d-%d", os.Getpid(), len(s.labs)), false, o)
	if err != nil {
		return nil, err
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("the lab is up after %v, in %s", took, c.Dir())
	s.labs[o] = c
	s.took = append(s.took, took)
	return c, nil
}

// down ends every lab.
func (s *suite) down() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.labs {
		if err := c.Down(); err != nil {
			return err
		}
	}
	return nil
}

// report writes a loud line for each test that was skipped, and how many ran.
func (s *suite) report(w io.Writer) {
	for _, x := range s.skipped {
		fmt.Fprintf(w, "REAL PARTS SKIPPED: %s: %s\n", x.test, x.why)
	}
	if len(s.ran) > 0 {
		fmt.Fprintf(w, "real parts: %d tests ran\n", len(s.ran))
	}
	for _, took := range s.took {
		fmt.Fprintf(w, "real parts: a lab came up in %v\n", took)
	}
}

// Main runs the tests of a package that uses real parts, ends their labs, and
// tells at the end what was skipped. It belongs in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(real.Main(m)) }
//
// "go test" hides what a package that passes prints, so the report also goes to
// the file that TUNCTL_REPORT names, if it does.
func Main(m *testing.M) int {
	Role()
	code := m.Run()
	if err := shared.down(); err != nil {
		fmt.Fprintf(os.Stderr, "real parts: the lab does not go down: %v\n", err)
		code = max(code, 1)
	}
	shared.report(os.Stderr)
	if err := shared.reportTo(os.Getenv("TUNCTL_REPORT")); err != nil {
		fmt.Fprintf(os.Stderr, "real parts: %v\n", err)
		code = max(code, 1)
	}
	return code
}

func (s *suite) reportTo(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	s.report(f)
	return f.Close()
}
