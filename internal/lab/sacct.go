package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const sacctDefault = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"

var sacctOptions = optionsOf(
	"P|parsable2", "p|parsable", "n|noheader", "X|allocations", "D|duplicates", "a|allusers", "j|jobs=",
	"o|format=", "S|starttime=", "E|endtime=", "name=", "u|user=", "s|state=", "V|version", "M|clusters=", "T|truncate",
	"delimiter=", "L|allclusters",
)

// sacctField is a field of sacct's, for the job itself and for its batch step.
type sacctField struct {
	title string
	job   func(c *call, v *view) string
	step  func(c *call, v *view) string // nil: empty
}

func sacct(_ context.Context, c *call) int {
	options, _, err := sacctOptions.parse(c.args, true)
	if err != nil {
		return c.failf(1, "sacct: error: %v", err)
	}
	var q query
	format, delimiter := sacctDefault, "|"
	header, steps, parsable, trailing := true, true, false, false
	for _, x := range options {
		switch x.name {
		case "version":
			c.printf("%s\n", slurmVersion)
			return 0
		case "parsable2":
			parsable = true
		case "parsable":
			parsable, trailing = true, true
		case "delimiter":
			delimiter = x.value
		case "noheader":
			header = false
		case "allocations":
			steps = false
		case "jobs":
			q.ids = splitList(x.value)
		case "name":
			q.names = splitList(x.value)
		case "format":
			format = x.value
		}
	}
	fields, err := sacctFieldsOf(format)
	if err != nil {
		return c.failf(1, `sacct: error: Invalid field requested: "%v"`, err)
	}
	line := func(cell func(sacctField) string) {
		cells := make([]string, len(fields))
		for i, f := range fields {
			cells[i] = cell(f)
			if !parsable {
				cells[i] = fmt.Sprintf("%12.12s", cells[i])
			}
		}
		switch {
		case trailing:
			c.printf("%s%s\n", strings.Join(cells, delimiter), delimiter)
		case parsable:
			c.printf("%s\n", strings.Join(cells, delimiter))
		default:
			c.printf("%s \n", strings.Join(cells, " "))
		}
	}
	if header {
		line(func(f sacctField) string { return f.title })
	}
	for _, v := range c.c.batch.views() {
		if !q.matches(&v) {
			continue
		}
		line(func(f sacctField) string { return f.job(c, &v) })
		if steps && !v.Started.IsZero() {
			line(func(f sacctField) string {
				if f.step == nil {
					return ""
				}
				return f.step(c, &v)
			})
		}
	}
	return 0
}

func sacctFieldsOf(format string) ([]sacctField, error) {
	var fields []sacctField
	for _, word := range splitList(format) {
		name, _, _ := strings.Cut(word, "%")
		field, ok := sacctFields[strings.ToLower(name)]
		if !ok {
			return nil, errors.New(name)
		}
		fields = append(fields, field)
	}
	return fields, nil
}

var sacctFields = func() map[string]sacctField {
	fields := map[string]sacctField{}
	add := func(title string, job, step func(c *call, v *view) string) {
		fields[strings.ToLower(title)] = sacctField{title, job, step}
	}
	same := func(title string, value func(c *call, v *view) string) { add(title, value, value) }

	for _, title := range []string{"JobID", "JobIDRaw"} {
		add(title, func(_ *call, v *view) string { return v.ID }, func(_ *call, v *view) string { return v.ID + ".batch" })
	}
	add("JobName", func(_ *call, v *view) string { return v.Name }, fixed("batch"))
	add("State", sacctState, func(_ *call, v *view) string {
		if v.State == stateTimeout {
			return stateCancelled
		}
		return v.State
	})
	add("ExitCode", sacctExit, func(_ *call, v *view) string { return fmt.Sprintf("%d:%d", v.Exit, v.Signal) })
	add("DerivedExitCode", fixed("0:0"), nil)
	same("Submit", func(c *call, v *view) string { return c.slurmTime(v.Submitted, "Unknown") })
	same("Eligible", func(c *call, v *view) string { return c.slurmTime(v.Submitted, "Unknown") })
	same("Start", func(c *call, v *view) string {
		none := "Unknown"
		if v.Over() {
			none = "None"
		}
		return c.slurmTime(v.Started, none)
	})
	same("End", func(c *call, v *view) string { return c.slurmTime(v.Ended, "Unknown") })
	same("Elapsed", func(_ *call, v *view) string { return longSpan(v.used()) })
	same("ElapsedRaw", func(_ *call, v *view) string { return strconv.Itoa(int(v.used().Seconds())) })
	add("Timelimit", func(_ *call, v *view) string { return longSpan(v.limit) }, nil)
	add("TimelimitRaw", func(_ *call, v *view) string { return strconv.Itoa(int(v.limit.Minutes())) }, nil)
	same("NodeList", func(_ *call, v *view) string { return cmp.Or(v.node(), "None assigned") })
	add("Reason", func(_ *call, v *view) string {
		if v.Over() {
			return "None"
		}
		return v.Reason
	}, nil)
	add("Partition", func(_ *call, v *view) string { return v.queue }, nil)
	same("Account", func(_ *call, v *view) string { return v.account })
	add("QOS", fixed("normal"), nil)
	add("User", fixed(user), nil)
	same("Cluster", fixed(alias))
	add("WorkDir", func(_ *call, v *view) string { return v.WorkDir }, nil)
	add("SubmitLine", func(_ *call, v *view) string { return strings.Join(v.command, " ") }, nil)
	same("AllocCPUS", func(_ *call, v *view) string { return strconv.Itoa(max(v.cpus, 1)) })
	same("NNodes", fixed("1"))
	add("AllocTRES", func(_ *call, v *view) string {
		if v.Started.IsZero() {
			return ""
		}
		return v.allTRES()
	}, func(_ *call, v *view) string { return v.tres() + ",node=1" })
	add("ReqTRES", func(_ *call, v *view) string { return v.allTRES() }, nil)
	same("MaxRSS", fixed(""))
	add("Comment", fixed(""), nil)
	add("Restarts", func(_ *call, v *view) string { return strconv.Itoa(v.Restarts) }, nil)
	return fields
}()

// allTRES is a job's as sacct lists it.
func (v *view) allTRES() string {
	return fmt.Sprintf("billing=%d,%s%s,node=1", max(v.cpus, 1), v.tres(), v.gpuTRES())
}

func sacctState(_ *call, v *view) string {
	if v.State == stateCancelled {
		return stateCancelled + " by " + userID
	}
	return v.State
}

// sacctExit is the job's exit code; one that was ended from outside has none.
func sacctExit(_ *call, v *view) string {
	if v.State == stateCancelled || v.State == stateTimeout {
		return "0:0"
	}
	return fmt.Sprintf("%d:%d", v.Exit, v.Signal)
}
