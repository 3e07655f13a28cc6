package agent

import "testing"

func TestASessionThatIsTakenDownWhileItStartsDoesNotListen(t *testing.T) {
	s := quietSession(t)
	s.agent.ctx = t.Context()
	s.halt() // comes between the start of the attempt and its first steps
	if err := s.listen(t.Context()); err == nil {
		t.Error("it listens all the same")
	}
	s.keepPorts()
	if s.pages.forwards != nil {
		s.pages.forwards.Close()
		t.Error("its port is still in use")
	}
}
