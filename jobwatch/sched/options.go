package sched

import (
	"regexp"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Option is an option of a submit command with its value.
type Option struct{ Name, Value string }

// valuesOf are the values of an option. "-l NAME" is a resource in the -l options.
func valuesOf(list []Option, name string) (values []string) {
	resource, isResource := strings.CutPrefix(name, "-l ")
	for _, o := range list {
		switch {
		case !isResource && o.Name == name:
			values = append(values, o.Value)
		case isResource && o.Name == "l":
			for item := range strings.SplitSeq(o.Value, ",") {
				if text, found := strings.CutPrefix(item, resource+"="); found {
					values = append(values, text)
				}
			}
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

// Choice is one of the user's choices, to become an argument of the submit command.
type Choice struct {
	Name, Value string
	Given       []Option // of the job's script, then of the session's arguments, which have precedence
}

// OptionFor makes the argument of the submit command for a choice.
type OptionFor func(Choice) (Option, error)

// AsOption makes a choice the value of an option.
func AsOption(name string) OptionFor {
	return func(c Choice) (Option, error) { return Option{name, c.Value}, nil }
}

// AsResource makes a choice the value of a resource.
func AsResource(name string) OptionFor {
	return func(c Choice) (Option, error) { return Option{"l", name + "=" + c.Value}, nil }
}

// HoursAs makes a choice of hours a time limit.
func HoursAs(limit OptionFor) OptionFor {
	return func(c Choice) (Option, error) {
		d, err := time.ParseDuration(c.Value + "h")
		if err != nil {
			return Option{}, c.Refuse("it is not a number of hours", "write 2 or 0.5")
		}
		c.Value = ClockTime((d + time.Minute - 1).Truncate(time.Minute)) // for Slurm, zero means no limit
		return limit(c)
	}
}

// Refuse is the error of a choice that cannot become an option.
func (c *Choice) Refuse(why, hint string) error {
	return api.Errorf(api.CodeUsage, "%s=%s cannot be passed to the scheduler: %s", c.Name, c.Value, why).
		WithHint("%s", hint)
}

// QsubOwnLog matches the variables that differ between jobs of qsub.
var QsubOwnLog = regexp.MustCompile(`\$\{?(?:JOB_|PBS_JOB)`)
