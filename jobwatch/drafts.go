package jobwatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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
	if err := b.host.turn.Lock(ctx); err != nil {
		return "", err
	}
	defer b.host.turn.Unlock()
	res, err := b.host.sh.Login(ctx, "cd "+hostPath(cmp.Or(s.Workdir, "~"))+" && head -c "+maxScript+" <"+hostPath(s.Script))
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

// given is the kind of the host's scheduler, and the options in the submission's script and in its arguments.
func (b *Drafts) given(ctx context.Context, s Submission) (kind *sched.Kind, inScript, inArgs []sched.Option, err error) {
	if kind, err = b.host.kind(ctx); err != nil {
		return kind, nil, nil, err
	}
	script, err := b.Script(ctx, s)
	d := &kind.Directives
	return kind, d.Options(d.Words(script)), d.Options(s.Args), err
}

// CommandOf is the command that would submit it, as the user would type it on the host.
func (b *Drafts) CommandOf(ctx context.Context, s Submission) (string, error) {
	kind, err := b.host.kind(ctx)
	if err != nil {
		return "", err
	}
	script := cmp.Or(s.Script, s.base())
	words := []string{kind.Program, posixsh.Typed(s.Args...), script}
	if kind.Program == "" { // the script itself gets the arguments
		words = []string{script, posixsh.Typed(s.Args...)}
	}
	command := strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
	if s.Workdir != "" {
		command = "cd " + s.Workdir + " && " + command
	}
	return command, nil
}

// SharedLog is the log that all jobs of the submission would write to, if its options name one,
// and how the user gives each job its own.
func (b *Drafts) SharedLog(ctx context.Context, s Submission) (log, hint string, err error) {
	kind, inScript, inArgs, err := b.given(ctx, s)
	if err != nil || kind.LogOption == "" {
		return "", "", err
	}
	log, _ = sched.LastOption(slices.Concat(inScript, inArgs), kind.LogOption)
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
	res, err := b.host.sh.Plain(ctx, "cd "+hostPath(cmp.Or(workdir, "~"))+" && test -d "+word)
	return err == nil && res.Exit == 0, err
}

// ChoiceNames are the choices that become arguments of a scheduler's submit command.
func ChoiceNames(scheduler string) []string {
	if k := kindNamed(scheduler); k != nil {
		return slices.Sorted(maps.Keys(k.Options))
	}
	return nil
}

// ListedChoices are ChoiceNames without second names: of two for one option, the one that the option's
// name begins.
func ListedChoices(scheduler string) []string {
	byOption := map[string]string{}
	for _, name := range ChoiceNames(scheduler) {
		place, err := kindNamed(scheduler).Options[name](nil)
		if err != nil || strings.HasPrefix(place.Name, "-l ") { // the job must have it already, or it is a resource
			place.Name = name
		}
		if byOption[place.Name] == "" || strings.HasPrefix(name, strings.ToLower(place.Name)) {
			byOption[place.Name] = name
		}
	}
	return slices.Sorted(maps.Values(byOption))
}

// WithChoices is the submission with the user's choices as arguments of the submit command,
// in place of arguments for the same. It is for scripts that tunctl has not written.
func (b *Drafts) WithChoices(ctx context.Context, s Submission, choices map[string]string) (Submission, error) {
	if len(choices) == 0 {
		return s, nil
	}
	kind, inScript, inArgs, err := b.given(ctx, s)
	if err != nil {
		return s, err
	}
	set := map[string]string{} // by which choice an option is set
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		o, err := optionFor(kind, name, choices[name], slices.Concat(inScript, inArgs))
		if earlier := set[o.Name]; earlier != "" && !strings.HasPrefix(o.Name, "-l ") && choices[earlier] != choices[name] {
			err = sched.Refusal(fmt.Sprintf("%s=%s is the same option", earlier, choices[earlier]), "give one of them")
		}
		if err != nil {
			return s, api.Errorf(api.CodeUsage, "%s=%s cannot be passed to the scheduler: %w", name, choices[name], err).WithHint("%s", api.HintOf(err))
		}
		set[o.Name] = name
		s.Args = kind.Directives.With(s.Args, o)
		inArgs = kind.Directives.Options(s.Args)
	}
	return s, nil
}

// optionFor is the option of a choice, in a job that has the given ones.
func optionFor(k *sched.Kind, name, value string, given []sched.Option) (sched.Option, error) {
	placeFor, ok := k.Options[name]
	if !ok {
		return sched.Option{}, sched.Refusal(k.Name+" has no word for it", wordsHint(k))
	}
	place, err := placeFor(given)
	if err != nil {
		return sched.Option{}, err
	}
	return place.With(value)
}

// ChosenIn are the values that the submission's script and arguments have for what can be chosen.
func (b *Drafts) ChosenIn(ctx context.Context, s Submission) (map[string]string, error) {
	kind, inScript, inArgs, err := b.given(ctx, s)
	if err != nil {
		return nil, err
	}
	asked, err := b.RequestOf(ctx, s)
	if err != nil {
		return nil, err
	}
	given := slices.Concat(inScript, inArgs)
	values := map[string]string{}
	for name, placeFor := range kind.Options {
		if place, err := placeFor(given); err == nil && !place.Hours && place.ValueIn(given) != "" {
			values[name] = place.ValueIn(given)
		}
	}
	if asked.Time > 0 {
		values["hours"] = strconv.FormatFloat(math.Round(asked.Time.Hours()*100)/100, 'f', -1, 64)
	}
	return values, nil
}

func wordsHint(k *sched.Kind) string {
	if len(k.Options) == 0 {
		return "a host without a scheduler has no limits to choose: give the script its values in args of the session"
	}
	return "available: " + strings.Join(slices.Sorted(maps.Keys(k.Options)), ", ") + "; or write it in the script, or in args of the session"
}

// OverriddenOptions are the options in the submission's arguments that override what its script
// has, and other, an earlier form of the script, has not: a scheduler prefers arguments.
func (b *Drafts) OverriddenOptions(ctx context.Context, s Submission, other []byte) ([]string, error) {
	kind, err := b.host.kind(ctx)
	if err != nil || len(s.Args) == 0 {
		return nil, err
	}
	d := &kind.Directives
	before := d.Items(d.Words(string(other)))
	args := d.Items(s.Args)
	var list []string
	for name, value := range d.Items(d.Words(string(s.Content))) {
		if _, given := args[name]; given && before[name] != value {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Request is what a job asks for, as far as its options say it; the scheduler's own defaults
// are not known. Zero is not said.
type Request struct {
	sched.Demand
	Name   string
	Queues []string // its queue, partition and QoS
}

// Size is the most that a submission may take, as far as its options say it. Zero is not
// said, or not understood.
type Size struct {
	Time  time.Duration // of each job
	Nodes int           // of all jobs of an array together
}

// RequestOf reads what a submission asks for from its arguments and its script.
func (b *Drafts) RequestOf(ctx context.Context, s Submission) (Request, error) {
	return b.read(ctx, s, sched.LastValue)
}

// SizeOf reads the size of a submission from its arguments and its script. Unlike RequestOf
// it is never too small: of an option that a script repeats, the largest value counts.
func (b *Drafts) SizeOf(ctx context.Context, s Submission) (Size, error) {
	d, err := b.read(ctx, s, sched.LargestValue)
	var size Size
	if d.Time < sched.TooMuch*time.Second {
		size.Time = d.Time
	}
	if d.Most < sched.TooMuch/max(d.ArraySize, 1) {
		size.Nodes = d.Most * d.ArraySize
	}
	return size, err
}

// read reads what a submission asks for. counts says which value of a repeated option does.
func (b *Drafts) read(ctx context.Context, s Submission, counts sched.WhichValue) (r Request, err error) {
	scheduler, err := b.host.scheduler(ctx)
	if err != nil {
		return r, err
	}
	script, err := b.Script(ctx, s)
	if err != nil {
		return r, err
	}
	kind := scheduler.Kind()
	words := kind.Directives.Words(script)
	if counts == sched.LargestValue && slices.ContainsFunc(slices.Concat(words, s.Args), isSeveralJobs) {
		return r, nil
	}
	o := sched.OptionSet{Script: kind.Directives.Options(words), Args: kind.Directives.Options(s.Args), Counts: counts}
	if _, off := sched.LastOption(o.All(), kind.Directives.OthersOff); counts == sched.LargestValue && kind.Directives.Others != nil && !off {
		if line := kind.Directives.Others().FindString(script); line != "" {
			return r, api.Errorf(api.CodeSubmit, "nothing was submitted: %s also reads the lines of the script that begin with %s, and tunctl does not", kind.Program, line).
				WithHint("remove these lines, or add --%s to args of the session", kind.Directives.OthersOff)
		}
	}
	r.Name, _ = sched.LastOption(o.All(), kind.JobName)
	for _, option := range []string{"partition", "qos", "q"} {
		if name, ok := sched.LastOption(o.All(), option); ok {
			r.Queues = append(r.Queues, name)
		}
	}
	r.Demand = scheduler.Demand(o)
	return r, nil
}

// isSeveralJobs recognises what separates the jobs of a heterogeneous job of Slurm.
func isSeveralJobs(word string) bool { return word == "hetjob" || word == "packjob" || word == ":" }

// MissingOptions returns those of the required options that a submission would not have:
// neither in its arguments nor in its script nor in the user's environment on the host.
// If that cannot be told, none is missing: the scheduler decides.
func (b *Drafts) MissingOptions(ctx context.Context, s Submission, required []string) ([]string, error) {
	if len(required) == 0 {
		return nil, nil
	}
	kind, inScript, inArgs, err := b.given(ctx, s)
	if api.HasCode(err, api.CodeSubmit) || err == nil && kind.Directives.Prefix == "" {
		return nil, nil // Submit says what is wrong with the script
	}
	if err != nil {
		return nil, err
	}
	d, list := &kind.Directives, slices.Concat(inScript, inArgs)
	missing := slices.DeleteFunc(slices.Clone(required), func(text string) bool { return d.Has(list, d.Required(text)) })
	if len(missing) == 0 {
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
		script = "cd " + hostPath(cmp.Or(s.Workdir, "~")) + " 2>/dev/null\nif " + d.Defaults + "; then exit 3; fi\n" + script
	}
	if err := b.host.turn.Lock(ctx); err != nil {
		return nil, false, err
	}
	defer b.host.turn.Unlock()
	res, err := b.host.sh.Login(ctx, script)
	return strings.Fields(string(res.Stdout)), res.Exit == 0, err
}
