package jobwatch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

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
	kind, err := b.host.kind(ctx)
	if err != nil {
		return s, err
	}
	script, err := b.Script(ctx, s)
	if err != nil {
		return s, err
	}
	d := &kind.Directives
	inScript := d.Options(d.Words(script))
	set := map[string]string{} // by which choice an option is set
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		o, err := optionFor(kind, name, choices[name], slices.Concat(inScript, d.Options(s.Args)))
		if earlier := set[o.Name]; earlier != "" && !strings.HasPrefix(o.Name, "-l ") && choices[earlier] != choices[name] {
			err = sched.Refusal(fmt.Sprintf("%s=%s is the same option", earlier, choices[earlier]), "give one of them")
		}
		if err != nil {
			return s, api.Errorf(api.CodeUsage, "%s=%s cannot be passed to the scheduler: %w", name, choices[name], err).WithHint("%s", api.HintOf(err))
		}
		set[o.Name] = name
		s.Args = d.With(s.Args, o)
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
	kind, err := b.host.kind(ctx)
	if err != nil {
		return nil, err
	}
	script, err := b.Script(ctx, s)
	if err != nil {
		return nil, err
	}
	asked, err := b.RequestOf(ctx, s, script)
	if err != nil {
		return nil, err
	}
	d := &kind.Directives
	given := slices.Concat(d.Options(d.Words(script)), d.Options(s.Args))
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
