package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// handleChoices says what may be chosen for a session's next run. It queries no host.
func (a *Agent) handleChoices(r *http.Request, _ api.None) (api.ChoicesResponse, error) {
	s, err := a.session(r.PathValue("name"))
	if err != nil {
		return api.ChoicesResponse{}, err
	}
	s.reconfigure()
	cfg := s.config()
	out := api.ChoicesResponse{Options: []api.Option{}, Recent: append([]api.Choices{}, a.recentChoices(s)...)}
	questions, site, _ := a.runQuestions(cfg)
	for _, q := range questions {
		o := api.Option{Name: q.Name, Ask: q.Ask, Value: q.Default, Choices: site.Listed(q)}
		if text, set := cfg.With[q.Name]; set {
			o.Value = text
		}
		out.Options = append(out.Options, o)
	}
	return out, nil
}

// recentChoices are those of a session's earlier runs. A second session shares them with the
// one of the config.
func (a *Agent) recentChoices(s *session) []api.Choices {
	return a.store.Session(cmp.Or(s.of, s.name)).Recent
}

// runQuestions are what may be chosen for a run of a session, and its host's site. They are
// not known before the first connection to a host of which the config tells neither site nor
// scheduler. Nothing can be chosen for a session that submits no job.
func (a *Agent) runQuestions(cfg configs.Session) (questions []configs.Question, site configs.Site, known bool) {
	if cfg.Submit == "" {
		return nil, site, true
	}
	host := a.cfg().Host(cfg.Host)
	scheduler := a.knownScheduler(cfg.Host)
	if cfg.Builtin() == "" {
		questions = configs.ScriptQuestions()
		if words := jobwatch.ChoiceNames(scheduler); scheduler != "" {
			questions = slices.DeleteFunc(questions, func(q configs.Question) bool { return !slices.Contains(words, q.Name) })
		}
		return questions, site, true
	}
	if host.Site == "" && scheduler == "" {
		return nil, site, false
	}
	site, err := a.allSites().ForHost(host, scheduler)
	if err != nil {
		return nil, site, false
	}
	return cfg.RunQuestions(site), site, true
}

// knownScheduler is the scheduler of a host, without a query; "" if it is not known yet.
func (a *Agent) knownScheduler(host string) string {
	if name := a.watchOptions(host).Scheduler; name != "" {
		return name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, w := range a.jobWatchers {
		if name := w.KnownScheduler(); key.host == host && name != "" {
			return name
		}
	}
	return ""
}

// requestedChoices are the choices of a request, checked as far as the site is known; nil if
// it has none.
func (a *Agent) requestedChoices(s *session, req api.UpRequest) (api.Choices, error) {
	if len(req.With) == 0 && !req.Again {
		return nil, nil
	}
	cfg := s.config()
	if cfg.Submit == "" {
		return nil, api.Errorf(api.CodeUsage, "nothing can be chosen for session %s: tunctl submits no job for it", s.name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, a.section(s.name))
	}
	with := api.Choices{}
	if req.Again {
		recent := a.recentChoices(s)
		if len(recent) == 0 {
			return nil, api.Errorf(api.CodeUsage, "session %s has no earlier choices to repeat", s.name).
				WithHint("`tunctl up %s --with NAME=VALUE` makes some", s.name)
		}
		maps.Copy(with, recent[0])
	}
	maps.Copy(with, req.With)
	return a.checkChoices(cfg, with)
}

// checkChoices checks choices as far as the site is known.
func (a *Agent) checkChoices(cfg configs.Session, with api.Choices) (api.Choices, error) {
	questions, site, known := a.runQuestions(cfg)
	if !known {
		return with, nil // the submission checks them
	}
	with, err := configs.CheckChoices(questions, with)
	if err != nil || cfg.Builtin() == "" {
		return with, err
	}
	job := withAnswers(cfg, with).BuiltinJob(a.cfg().Host(cfg.Host), site, site.Scheduler)
	_, err = job.Script() // the limits of a queue
	return with, err
}

// withAnswers is a session with a builtin job with other answers.
func withAnswers(cfg configs.Session, with api.Choices) *configs.Session {
	answers := maps.Clone(cfg.With)
	if answers == nil {
		answers = map[string]string{}
	}
	maps.Copy(answers, with)
	cfg.With = answers
	return &cfg
}

// section is the name of a session's section in the config. A section of the session's own
// name may have been added since it was a second one of another.
func (a *Agent) section(name string) string {
	if _, own := a.cfg().Session(name); own {
		return name
	}
	return cmp.Or(a.store.Session(name).Of, name)
}

// checkPresent checks that a job that the session has already has these choices; nil are none.
func (s *session) checkPresent(with api.Choices) error {
	if with == nil {
		return nil
	}
	present := s.presentIn(s.agent.store.Session(s.name).Current())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.attempt != nil && s.facts.Submitting:
		if !present.have(with) {
			return s.otherChoices("a job of "+s.name+" is just being submitted", s.endFirst(), present, with)
		}
		return nil
	case s.attempt != nil && s.facts.Job != nil && !s.facts.JobOver():
		return s.conflictLocked(*s.facts.Job, present, with)
	}
	return nil
}

// presentChoices are what is known of how the session's job was submitted.
type presentChoices struct {
	known  bool        // tunctl submitted it
	with   api.Choices // what a person chose
	values api.Choices // that, and what the config or the site has for the rest
}

func (s *session) presentIn(sub state.Submission) presentChoices {
	cfg := s.config()
	p := presentChoices{known: sub.Tag != "", with: sub.With, values: api.Choices{}}
	questions, _, _ := s.agent.runQuestions(cfg)
	for _, q := range questions {
		p.values[q.Name] = q.Default
	}
	maps.Copy(p.values, cfg.With)
	maps.Copy(p.values, sub.With)
	return p
}

// have reports whether the job has these choices.
func (p presentChoices) have(with api.Choices) bool {
	for name, value := range with {
		if p.values[name] != value {
			return false
		}
	}
	return true
}

// conflictLocked is the error of choices that the session's job does not have.
func (s *session) conflictLocked(job api.Job, present presentChoices, with api.Choices) error {
	state := string(job.State)
	switch {
	case !present.known:
		return s.otherChoices(fmt.Sprintf("job %s of %s is %s, and tunctl did not submit it: whether it has %s is not known", job.ID, s.name, state, with), s.endFirst(), presentChoices{}, with)
	case present.have(with):
		return nil
	}
	return s.otherChoices(fmt.Sprintf("job %s of %s is already %s", job.ID, s.name, state), s.endFirst(), present, with)
}

func (s *session) endFirst() string {
	return fmt.Sprintf("`tunctl down %s --cancel` ends it first", s.name)
}

// otherChoices is the error for a job with other choices than those of the request; first is
// what to do about it in place of a second session.
func (s *session) otherChoices(what, first string, present presentChoices, with api.Choices) *api.Error {
	switch {
	case !present.known:
	case len(present.with) == 0:
		what += ", as the config has it and not with " + with.String()
	default:
		what += ", with " + present.with.String()
	}
	base := cmp.Or(s.of, s.name)
	return api.Errorf(api.CodeOtherChoices, "%s", what).
		WithHint("%s; `tunctl up %s --as %s %s` starts a second one beside it", first, base, s.agent.freeName(base), with.Flags())
}

// beginSubmission returns the choices of the submission that begins now. From then on, no
// others are accepted. An interrupted one is finished as it was begun: its job may exist.
func (s *session) beginSubmission(interrupted state.Submission, doing string) (api.Choices, error) {
	present := s.presentIn(interrupted)
	s.mu.Lock()
	defer s.mu.Unlock()
	with := s.asked
	if interrupted.Tag != "" {
		if !present.have(with) {
			s.asked = nil
			return nil, s.otherChoices("an earlier submission of "+s.name+" was interrupted, and its job may still appear",
				fmt.Sprintf("`tunctl up %s` finishes it as it was begun", s.name), present, with)
		}
		with = interrupted.With
	}
	s.asked = nil
	s.facts.Submitting, s.facts.Doing, s.facts.With = true, doing, with
	s.enterLocked()
	return with, nil
}

// withChoices is a submission of a script of the person's own with their choices. The job of a
// second session gets its name, so that the first session does not find it.
func (a *Agent) withChoices(ctx context.Context, cfg configs.Session, jobs *jobwatch.Watcher, sub jobwatch.Submission, with api.Choices) (jobwatch.Submission, error) {
	with, err := configs.CheckChoices(configs.ScriptQuestions(), with)
	if err != nil {
		return sub, err
	}
	if a.section(cfg.Name) != cfg.Name {
		if sub, err = jobs.Named(ctx, sub, a.acceptedJobName(cfg.Host, cfg.Job)); err != nil {
			return sub, err
		}
	}
	return jobs.WithChoices(ctx, sub, with)
}
