package real

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// suite is what the tests of one process have in common: the labs they started, and
// which of them were skipped and why.
type suite struct {
	sharing sync.Mutex // held while the shared lab starts
	shared  *Cluster   // for the tests that break nothing

	mu      sync.Mutex
	labs    []*Cluster // every lab that is up
	started int
	free    map[Options][]*Cluster // those that no test has now
	held    map[holding]*Cluster   // the others, but for the shared one
	took    []time.Duration
	ran     map[string]bool
	skipped []skip
}

type skip struct{ test, why string }

// holding is a test and which lab it has.
type holding struct {
	test string
	Options
}

// tests is the one variable of this package: a test knows its process only, so what
// the tests of a process have in common has no other place.
var tests = &suite{free: map[Options][]*Cluster{}, held: map[holding]*Cluster{}, ran: map[string]bool{}}

// Wanted reports whether tests on real parts were asked for. A plain "go test"
// stays quick and needs nothing.
func Wanted() bool { return os.Getenv("TUNCTL_REAL") == "1" || os.Getenv("CI") == "true" }

// Need skips a test unless tests on real parts were asked for, with TUNCTL_REAL=1
// or CI=true, and fails it if the machine then lacks one of the groups of parts
// that install.sh knows.
func Need(t testing.TB, groups ...string) {
	t.Helper()
	tests.need(t, Wanted(), func() error { return Check(groups...) })
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

// acquire gives a test a lab with these options that no other test has: the one that it
// or a test that it is part of has already, a free one, or a new one.
func (s *suite) acquire(t testing.TB, o Options) (*Cluster, error) {
	t.Helper()
	if c := s.heldBy(t.Name(), o); c != nil {
		return c, nil
	}
	c := s.takeFree(o)
	if c == nil {
		var err error
		if c, err = s.start(t, o); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.held[holding{t.Name(), o}] = c
	s.mu.Unlock()
	t.Cleanup(func() { s.giveBack(t, c) })
	return c, nil
}

// heldBy is the lab that a test has, or one of those that it is part of.
func (s *suite) heldBy(test string, o Options) *Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if c := s.held[holding{test, o}]; c != nil {
			return c
		}
		end := strings.LastIndexByte(test, '/')
		if end < 0 {
			return nil
		}
		test = test[:end]
	}
}

func (s *suite) takeFree(o Options) *Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free[o])
	if n == 0 {
		return nil
	}
	c := s.free[o][n-1]
	s.free[o] = s.free[o][:n-1]
	return c
}

// giveBack frees a test's lab for the next one, without the jobs that the test left. That of
// a test that failed may be in any state, so it ends.
func (s *suite) giveBack(t testing.TB, c *Cluster) {
	t.Helper()
	ends := t.Failed()
	if !ends {
		if err := c.clear(); err != nil {
			t.Logf("the lab is not used again: %v", err)
			ends = true
		}
	}
	s.mu.Lock()
	delete(s.held, holding{t.Name(), c.options})
	if ends {
		s.labs = slices.DeleteFunc(s.labs, func(x *Cluster) bool { return x == c })
	} else {
		s.free[c.options] = append(s.free[c.options], c)
	}
	s.mu.Unlock()
	if !ends {
		return
	}
	if err := c.Down(); err != nil {
		t.Errorf("the lab does not go down: %v", err)
	}
}

// share is the lab of the tests that break nothing; the first one starts it.
func (s *suite) share(t testing.TB) (*Cluster, error) {
	t.Helper()
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if s.shared == nil {
		c, err := s.start(t, Options{})
		if err != nil {
			return nil, err
		}
		s.shared = c
	}
	return s.shared, nil
}

func (s *suite) start(t testing.TB, o Options) (*Cluster, error) {
	t.Helper()
	s.mu.Lock()
	s.started++
	name := fmt.Sprintf("test-%d-%d", os.Getpid(), s.started)
	s.mu.Unlock()
	began := time.Now()
	c, err := Up(name, false, o)
	if err != nil {
		return nil, err
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("the lab is up after %v, in %s", took, c.Dir())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.labs = append(s.labs, c)
	s.took = append(s.took, took)
	return c, nil
}

// down ends every lab, all of them at once.
func (s *suite) down() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	problems := make([]error, len(s.labs))
	var wg sync.WaitGroup
	for i, c := range s.labs {
		wg.Go(func() { problems[i] = c.Down() })
	}
	wg.Wait()
	return errors.Join(problems...)
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

// together is how many tests on real parts run at once, unless -parallel says
// otherwise: they wait most of the time, for Slurm or for a fault to be over.
const together = "8"

// Main runs the tests of a package that uses real parts, ends their labs, and
// tells at the end what was skipped. It belongs in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(real.Main(m)) }
//
// The tests run in a network of their own, so that tests of other packages, which may
// run at the same time, do not take a cut or a new lab here for a change of theirs.
func Main(m *testing.M) int {
	Role()
	if code, ran := runInOwnNetwork(); ran {
		return code
	}
	if err := flag.Set("test.parallel", together); err != nil {
		fmt.Fprintf(os.Stderr, "real parts: %v\n", err)
		return 1
	}
	code := m.Run()
	if err := tests.down(); err != nil {
		fmt.Fprintf(os.Stderr, "real parts: the lab does not go down: %v\n", err)
		code = max(code, 1)
	}
	tests.report(os.Stderr)
	return code
}

// inOwnNetwork says to a process of a test that it is in a network of its own.
const inOwnNetwork = "TUNCTL_LAB_NETWORK"

// runInOwnNetwork runs this process again as a child in a network of its own, and
// returns its exit code. It does nothing in that child, nor where no lab can start.
func runInOwnNetwork() (code int, ran bool) {
	if !Wanted() || Check("ssh") != nil {
		return 0, false
	}
	if os.Getenv(inOwnNetwork) != "" {
		// A new network has a loopback that is down.
		if _, err := run("", "ip", "link", "set", "lo", "up"); err != nil {
			fmt.Fprintf(os.Stderr, "real parts: %v\n", err)
			return 1, true
		}
		return 0, false
	}
	runtime.LockOSThread() // the child ends with its parent's thread
	cmd := again()
	cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), true
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "real parts: run the tests in a network of their own: %v\n", err)
		return 1, true
	}
	return 0, true
}
