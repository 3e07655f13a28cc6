package agent

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// second is a session from the same section of the config as another, with its own job, local
// ports and record. Its down forgets it.
func (a *Agent) second(first *session, name string) (*session, error) {
	base := cmp.Or(first.of, first.name)
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg, configured := a.settings.Config().Session(base)
	switch {
	case !configured:
		return nil, api.Errorf(api.CodeUsage, "session %s is not in the config, so there is nothing to start a second time", base)
	case cfg.Submit == "":
		return nil, api.Errorf(api.CodeUsage, "tunctl submits no job for session %s, so it cannot start a second one", base).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, base)
	case !configs.ValidSessionName(name):
		return nil, api.Errorf(api.CodeUsage, "%q is not a valid name for a session", name).
			WithHint("use letters, digits, '_', '-' and '.'; begin with a letter or digit")
	case cfg.Log != "" && !configs.LogDiffers(cfg.Log):
		return nil, api.Errorf(api.CodeUsage, "both jobs would write to the same log: %s", cfg.Log).
			WithHint("write {id} or {name} in log of [session.%s]", base)
	}
	rec := a.store.Session(name)
	_, taken := a.settings.Config().Session(name)
	s, live := a.sessions[name]
	switch {
	case live && s.of == base:
		return s, nil
	case live, taken, rec.Of == "" && rec.Attached != "", rec.Of != base && rec.Submissions.AnyLive():
		return nil, api.Errorf(api.CodeUsage, "session %q already exists", name).
			WithHint("choose another name: --as %s", a.freeNameLocked(base))
	}
	if other, same := a.sameJobLocked(name, cfg.Host); same {
		return nil, api.Errorf(api.CodeUsage, "session %s would take the job of %s for its own: their jobs would have the same name",
			other, name).WithHint("choose another name: --as %s", a.freeNameLocked(base))
	}
	if rec.Of != base {
		err := a.store.Update(name, func(r *state.Session) { *r = state.Session{Of: base, Attached: cfg.Host, Port: r.Port} })
		if err != nil {
			return nil, err
		}
	}
	return a.addSecondLocked(name, cfg), nil
}

func (a *Agent) addSecondLocked(name string, base configs.Session) *session {
	s := a.addLocked(secondConfig(base, name), second)
	s.of = base.Name
	return s
}

// secondConfig are the settings of a second session: the job has another name, and nothing
// listens where the first session does.
func secondConfig(cfg configs.Session, name string) configs.Session {
	cfg.Name, cfg.Job, cfg.Local = name, name, 0
	cfg.Forward = slices.Clone(cfg.Forward)
	for i, f := range cfg.Forward {
		if host, _, err := net.SplitHostPort(f.Listen); err == nil && f.Kind != api.ForwardRemote {
			cfg.Forward[i].Listen = net.JoinHostPort(host, "0")
		}
	}
	return cfg
}

// freeName is a name for a second session of base.
func (a *Agent) freeName(base string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.freeNameLocked(base)
}

func (a *Agent) freeNameLocked(base string) string {
	cfg, _ := a.settings.Config().Session(base)
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s%d", base, n)
		if configs.SameJobName(base, name) { // schedulers that shorten names keep a number after a dash
			name = fmt.Sprintf("%s-%d", base, n)
		}
		_, configured := a.settings.Config().Session(name)
		_, live := a.sessions[name]
		_, same := a.sameJobLocked(name, cfg.Host)
		if rec := a.store.Session(name); !configured && !live && !same && rec.Attached == "" && !rec.Submissions.AnyLive() {
			return name
		}
	}
}

// sameJobLocked is the session that a second session's job would have the same name for, if
// there is one: it finds its job by its name.
func (a *Agent) sameJobLocked(name, host string) (other string, same bool) {
	for _, s := range a.settings.Config().Sessions {
		if s.Host == host && s.Job != "" && configs.SameJobName(s.Job, name) {
			return s.Name, true
		}
	}
	for _, s := range a.sessions {
		if s.of != "" && s.name != name && configs.SameJobName(s.name, name) {
			return s.name, true
		}
	}
	return "", false
}
