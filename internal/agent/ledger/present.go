package ledger

import (
	"fmt"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// CheckPresent checks that a job that the session has already has these choices; nil are none.
func (l *Ledger) CheckPresent(with api.Choices) error {
	if with == nil {
		return nil
	}
	present, known := l.presentIn(l.Current()), l.owner.Facts()
	switch {
	case !l.owner.InProgress():
	case known.Submitting:
		if !present.have(with) {
			return present.others("a job of "+l.Name+" is just being submitted", present.endFirst(), with)
		}
	case known.Job() != nil && !known.JobOver():
		return present.conflict(*known.Job(), with)
	}
	return nil
}

// presentChoices are what is known of how a session's job was submitted.
type presentChoices struct {
	ledger *Ledger
	known  bool        // this tunctl submitted it
	with   api.Choices // what the user chose
	values api.Choices // that, and what the config or the site has for the rest
}

func (l *Ledger) presentIn(sub state.Submission) presentChoices {
	return presentChoices{l, sub.Tag != "", sub.With, l.Source(l.owner.Config()).Values(sub.With)}
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

// conflict is the error of choices that the session's job does not have.
func (p presentChoices) conflict(job api.Job, with api.Choices) error {
	what := fmt.Sprintf("job %s of %s is already %s", job.ID, p.ledger.Name, job.State)
	switch {
	case !p.known:
		what = fmt.Sprintf("job %s of %s is %s, and was not submitted from here: whether it has %s is not known", job.ID, p.ledger.Name, job.State, with)
	case p.have(with):
		return nil
	}
	return p.others(what, p.endFirst(), with)
}

func (p presentChoices) endFirst() string {
	return fmt.Sprintf("`tunctl down %s --cancel` ends it first", p.ledger.Name)
}

// others is the error for a job with other choices than those of the request; first is
// what to do about it in place of a second session.
func (p presentChoices) others(what, first string, with api.Choices) *api.Error {
	switch {
	case !p.known:
	case len(p.with) == 0:
		what += ", as the config has it and not with " + with.String()
	default:
		what += ", with " + p.with.String()
	}
	base := p.ledger.Base()
	return api.Errorf(api.CodeOtherChoices, "%s", what).
		WithHint("%s; `tunctl up %s --as %s %s` starts a second one beside it", first, base, p.ledger.FreeName(base), with.Flags())
}
