package sched

import (
	"regexp"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Option is an option of a submit command with its value. The name of a resource in -l is "-l NAME".
type Option struct{ Name, Value string }

// valuesOf are the values of an option.
func valuesOf(list []Option, name string) (values []string) {
	for _, o := range list {
		if o.Name == name {
			values = append(values, o.Value)
		}
	}
	return values
}

// LastOption is the value of an option: the last one counts.
func LastOption(list []Option, name string) (value string, ok bool) {
	if values := valuesOf(list, name); len(values) > 0 {
		return values[len(values)-1], true
	}
	return "", false
}

// Place is where the value of a choice stands among the options of the submit command.
type Place struct {
	Name          string // of the option
	Before, After string // the parts of its value that stay
	Hours         bool   // the choice is a number of hours, and the value a time limit
}

// PlaceFor is the place of a choice in a job with these options: those of its script, then those of the
// session's arguments, which have precedence. Its error is a Refusal.
type PlaceFor func(given []Option) (Place, error)

// At is the same place in every job.
func At(name string) PlaceFor { return Place{Name: name}.always }

// HoursAt is the place of a time limit.
func HoursAt(name string) PlaceFor { return Place{Name: name, Hours: true}.always }

func (p Place) always([]Option) (Place, error) { return p, nil }

// With is the option with the value of a choice.
func (p Place) With(value string) (Option, error) {
	if p.Hours {
		d, err := time.ParseDuration(value + "h")
		if err != nil {
			return Option{}, Refusal("it is not a number of hours", "write 2 or 0.5")
		}
		value = ClockTime((d + time.Minute - 1).Truncate(time.Minute)) // for Slurm, zero means no limit
	}
	return Option{p.Name, p.Before + value + p.After}, nil
}

// ValueIn is the value at the place in a job's options; "" if there is none.
func (p Place) ValueIn(given []Option) string {
	has, _ := LastOption(given, p.Name)
	value, begins := strings.CutPrefix(has, p.Before)
	value, ends := strings.CutSuffix(value, p.After)
	if !begins || !ends {
		return ""
	}
	return value
}

// Refusal says why a choice cannot become an option.
func Refusal(why, hint string) error {
	return api.Errorf(api.CodeUsage, "%s", why).WithHint("%s", hint)
}

// QsubOwnLog matches the variables that differ between jobs of qsub.
var QsubOwnLog = regexp.MustCompile(`\$\{?(?:JOB_|PBS_JOB)`)
