package jobwatch

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/sched"
)

// Drafts are submissions that are not made yet: what their arguments and scripts ask for, and with
// other arguments. A script on the host is read once for all of them; several goroutines must not use them at once.
type Drafts struct {
	host    *host
	scripts map[string]string // by its folder and path
}

func scriptKey(s Submission) string { return s.Workdir + "\x00" + s.Script }

// Script is the text of the submission's script, as far as schedulers look for options in it.
func (b *Drafts) Script(ctx context.Context, s Submission) (string, error) {
	if s.Script == "" {
		return strings.ReplaceAll(string(s.Content), "\r\n", "\n"), nil
	}
	if text, read := b.scripts[scriptKey(s)]; read {
		return text, nil
	}
	unlock, err := b.host.turn.Take(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	res, err := b.host.sh.Login(ctx, "cd "+posixsh.QuotePath(cmp.Or(s.Workdir, "~"))+" && head -c "+maxScript+" <"+posixsh.QuotePath(s.Script))
	if err != nil {
		return "", err
	}
	if res.Exit != 0 {
		return "", api.Errorf(api.CodeSubmit, "cannot read the job script %q on the host: %s", s.Script, sched.LastErrorLine(res)).
			WithHint("paths start in your home folder there; write local:FILE for a file on this machine")
	}
	text := strings.ReplaceAll(string(res.Stdout), "\r\n", "\n")
	b.scripts[scriptKey(s)] = text
	return text, nil
}

// Named is the submission with another name of the job, where the scheduler has names.
func (b *Drafts) Named(ctx context.Context, s Submission, name string) (Submission, error) {
	kind, err := b.host.kind(ctx)
	if err != nil {
		return s, err
	}
	if kind.JobName != "" {
		s.Args = kind.Directives.With(s.Args, sched.Option{Name: kind.JobName, Value: name})
	}
	s.Base = name + ".sh"
	return s, nil
}

// CommandOf is the command that would submit it, as the user would type it on the host.
func (b *Drafts) CommandOf(ctx context.Context, s Submission) (string, error) {
	kind, err := b.host.kind(ctx)
	if err != nil {
		return "", err
	}
	script := cmp.Or(s.Script, s.base())
	words := make([]string, len(s.Args))
	for i, a := range s.Args {
		words[i] = a
		if !plainWord.MatchString(a) {
			words[i] = posixsh.Quote(a)
		}
	}
	if kind.Program == "" { // the script itself gets the arguments
		words = append([]string{script}, words...)
	} else {
		words = append(append([]string{kind.Program}, words...), script)
	}
	command := strings.Join(words, " ")
	if s.Workdir != "" {
		command = "cd " + s.Workdir + " && " + command
	}
	return command, nil
}

// plainWord matches words that mean themselves to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// SharedLog is the log that all jobs of the submission would write to, if its options name one,
// and how the user gives each job its own.
func (b *Drafts) SharedLog(ctx context.Context, s Submission) (log, hint string, err error) {
	kind, err := b.host.kind(ctx)
	if err != nil {
		return "", "", err
	}
	if kind.LogOption == "" {
		return "", "", nil
	}
	script, err := b.Script(ctx, s)
	if err != nil {
		return "", "", err
	}
	d := &kind.Directives
	log, _ = sched.LastOption(slices.Concat(d.Options(d.Words(script)), d.Options(s.Args)), kind.LogOption)
	if host, file, ok := strings.Cut(log, ":"); ok && kind.LogFolders && !strings.Contains(host, "/") {
		log = file
	}
	if log == "/dev/null" || kind.OwnLog.MatchString(log) {
		return "", "", nil
	}
	if log != "" && kind.LogFolders {
		if folder, err := b.isFolder(ctx, s.Workdir, log); err != nil || folder {
			return "", "", err
		}
	}
	return log, kind.LogHint, nil
}

// isFolder reports whether a path in a job's options is a folder on the host. Schedulers
// replace $HOME and $USER in it.
func (b *Drafts) isFolder(ctx context.Context, workdir, file string) (bool, error) {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = "$HOME/" + rest
	}
	word := strings.NewReplacer("$HOME", `'"$HOME"'`, "$USER", `'"$USER"'`).Replace(posixsh.Quote(file))
	res, err := b.host.sh.Plain(ctx, "cd "+posixsh.QuotePath(cmp.Or(workdir, "~"))+" && test -d "+word)
	return err == nil && res.Exit == 0, err
}
