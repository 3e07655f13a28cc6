package jobwatch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/sched"
)

// MissingOptions returns those of the required options that a submission would not have:
// neither in its arguments nor in its script nor in the user's environment on the host.
// If that cannot be told, none is missing: the scheduler decides.
func (b *Drafts) MissingOptions(ctx context.Context, s Submission, required []string) ([]string, error) {
	if len(required) == 0 {
		return nil, nil
	}
	kind, err := b.host.kind(ctx)
	if err != nil {
		return nil, err
	}
	d := &kind.Directives
	if d.Prefix == "" {
		return nil, nil
	}
	list := d.Options(s.Args)
	isGiven := func(text string) bool { return d.Has(list, d.Required(text)) }
	missing := slices.DeleteFunc(slices.Clone(required), isGiven)
	if len(missing) == 0 {
		return nil, nil
	}
	script, err := b.Script(ctx, s)
	if api.HasCode(err, api.CodeSubmit) {
		return nil, nil // Submit says what is wrong with the script
	}
	if err != nil {
		return nil, err
	}
	list = d.Options(d.Words(script))
	if missing = slices.DeleteFunc(missing, isGiven); len(missing) == 0 {
		return nil, nil
	}
	variables, known, err := b.variables(ctx, d, s)
	if err != nil || !known {
		return nil, err
	}
	isSet := func(name string) bool { return slices.Contains(variables, name) }
	return slices.DeleteFunc(missing, func(text string) bool {
		return d.Variables != nil && slices.ContainsFunc(d.Variables(d.Required(text).Name), isSet)
	}), nil
}

// maxScript is how much of a script is read for its options, which come first.
const maxScript = "65536"

// variables are the names of the user's variables on the host. They are not known where a file there may have
// options, too.
func (b *Drafts) variables(ctx context.Context, d *sched.Directives, s Submission) (names []string, known bool, err error) {
	script := "env | LC_ALL=C sed -n 's/^\\([A-Z][A-Z0-9_]*\\)=..*/\\1/p'\n" // names only: values may be secret
	if d.Defaults != "" {
		script = "cd " + posixsh.QuotePath(cmp.Or(s.Workdir, "~")) + " 2>/dev/null\nif " + d.Defaults + "; then exit 3; fi\n" + script
	}
	unlock, err := b.host.turn.Take(ctx)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	res, err := b.host.sh.Login(ctx, script)
	return strings.Fields(string(res.Stdout)), res.Exit == 0, err
}
