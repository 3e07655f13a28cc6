package session

import "testing"

func TestASessionThatIsTakenDownWhileItStartsDoesNotListen(t *testing.T) {
	s := quietSession(t)
	s.parts.Ctx = t.Context()
	s.halt() // comes between the start of the attempt and its first steps
	r := &attempt{Session: s}
	if err := r.listen(t.Context()); err == nil {
		t.Error("it listens all the same")
	}
	r.keepPorts()
	if s.pages.forwards != nil {
		s.pages.forwards.Close()
		t.Error("its port is still in use")
	}
}

func TestListeners(t *testing.T) {
	for name, tt := range map[string]struct {
		host string
		stay bool
	}{
		"stay on the session's host":           {"old", true},
		"of another host are opened once more": {"new", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := quietSession(t)
			s.parts.Ctx, s.cfg.Host = t.Context(), "old"
			if err := s.HoldPort(); err != nil {
				t.Fatal(err)
			}
			open := s.pages.forwards
			defer open.Close()
			s.cfg.Host = tt.host // its section was edited
			(&attempt{Session: s}).closeOutdated(s.cfg.Forward)
			if stays := s.pages.forwards == open; stays != tt.stay {
				t.Errorf("they stay: %v", stays)
			}
		})
	}
}
