package jobwatch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"tunctl/internal/posixsh"
	"tunctl/jobwatch/sched"
)

// MissingOptions returns those of the required options that a submission would not have:
// neither in its arguments nor in its script nor in the person's environment on the host.
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
	list := slices.Concat(d.Options(s.Args), d.Options(d.Words(string(s.Content))))
	missing := slices.DeleteFunc(slices.Clone(required), func(text string) bool { return d.Has(list, d.Required(text)) })
	if len(missing) == 0 {
		return nil, nil
	}
	there, err := b.readOptions(ctx, d, s)
	if err != nil || there == nil {
		return nil, err
	}
	list = append(list, there.options...)
	return slices.DeleteFunc(missing, func(text string) bool {
		r := d.Required(text)
		return d.Has(list, r) || d.Variables != nil && slices.ContainsFunc(d.Variables(r.Name), func(name string) bool { return slices.Contains(there.variables, name) })
	}), nil
}

// hostOptions are the options that a submission gets on the host.
type hostOptions struct {
	options   []sched.Option // those of a script there
	variables []string       // the names of the person's variables
}

// maxScript is how much of a script is read for its options, which come first.
const maxScript = "65536"

// readOptions reads the options of a submission that are on the host; nil if they cannot be
// read.
func (b *Drafts) readOptions(ctx context.Context, d *sched.Directives, s Submission) (*hostOptions, error) {
	script := "cd " + posixsh.QuotePath(cmp.Or(s.Workdir, "~")) + " 2>/dev/null\n"
	if d.Defaults != "" {
		script += "if " + d.Defaults + "; then exit 3; fi\n"
	}
	script += "env | LC_ALL=C sed -n 's/^\\([A-Z][A-Z0-9_]*\\)=..*/\\1/p'\n" // names only: values may be secret
	script += "printf '%s\\n' tunctl.script\n"
	known, read := b.scripts[scriptKey(s)]
	if s.Script != "" && !read {
		script += "head -c " + maxScript + " <" + posixsh.QuotePath(s.Script) + " || exit 3\n"
	}
	unlock, err := b.host.turn.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	res, err := b.host.sh.Login(ctx, script)
	if err != nil || res.Exit != 0 {
		return nil, err // Submit says what is wrong with the script
	}
	names, text, _ := strings.Cut(string(res.Stdout), "tunctl.script\n")
	if text = strings.ReplaceAll(text, "\r\n", "\n"); read {
		text = known
	}
	b.scripts[scriptKey(s)] = text
	return &hostOptions{options: d.Options(d.Words(text)), variables: strings.Fields(names)}, nil
}
