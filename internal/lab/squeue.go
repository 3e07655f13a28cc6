package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	squeueDefault = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	squeueLong    = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	squeueStart   = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
)

var squeueOptions = optionsOf(
	"h|noheader", "me", "u|user=", "j|jobs=", "t|states=", "n|name=", "o|format=", "O|Format=", "l|long", "start",
	"p|partition=", "A|account=", "S|sort=", "w|nodelist=", "V|version", "r|array", "a|all", "M|clusters=", "i|iterate=",
	"local",
)

// query is what a squeue or sacct asks for.
type query struct {
	ids, states, names []string
}

func (q *query) matches(v *view) bool {
	switch {
	case len(q.ids) > 0 && !slices.Contains(q.ids, v.ID):
		return false
	case len(q.names) > 0 && !slices.Contains(q.names, v.Name):
		return false
	}
	return true
}

func squeue(_ context.Context, c *call) int {
	options, _, err := squeueOptions.parse(c.args, true)
	if err != nil {
		if unknown, ok := errors.AsType[*unknownOptionError](err); ok {
			fmt.Fprintf(c.stderr, "squeue: unrecognized option '%s'\n", unknown.option)
		}
		return c.failf(1, `Try "squeue --help" for more information`)
	}
	if c.c.batch.isDown() && !slices.Contains(options, option{"version", ""}) {
		return c.failf(1, "slurm_load_jobs error: %s", controllerGone)
	}
	var q query
	table := parseShort(squeueDefault)
	header, onlyPending := true, false
	for _, x := range options {
		switch x.name {
		case "version":
			c.printf("%s\n", slurmVersion)
			return 0
		case "noheader":
			header = false
		case "jobs":
			q.ids = splitList(x.value)
		case "states":
			q.states = splitList(strings.ToUpper(x.value))
		case "name":
			q.names = splitList(x.value)
		case "user":
			if !slices.Contains(splitList(x.value), user) {
				return c.failf(1, "Invalid user: %s", x.value)
			}
		case "format":
			table = parseShort(x.value)
		case "Format":
			if table, err = parseLong(x.value); err != nil {
				return c.failf(1, "squeue: error: Invalid job format specification: %v", err)
			}
		case "long":
			table = parseShort(squeueLong)
			c.printf("%s\n", time.Now().In(c.location()).Format(cTime))
		case "start":
			table, onlyPending = parseShort(squeueStart), true
		}
	}
	if status := c.checkIDs("squeue", q.ids); status != 0 {
		return status
	}
	if header {
		c.printf("%s\n", table.header())
	}
	for _, v := range c.c.batch.views() {
		if q.matches(&v) && shownIn(&v, q.states) && (!onlyPending || v.State == statePending) {
			c.printf("%s\n", table.row(c, &v))
		}
	}
	return 0
}

// checkIDs refuses ids that are none. A single unknown one is an error; among
// several it is left out.
func (c *call) checkIDs(program string, ids []string) int {
	for _, id := range ids {
		if _, err := strconv.Atoi(id); err != nil {
			return c.failf(1, "%s: error: Invalid job id: %s", program, id)
		}
	}
	if len(ids) == 1 {
		if _, err := c.c.batch.find(ids[0]); err != nil {
			return c.failf(1, "slurm_load_jobs error: Invalid job id specified")
		}
	}
	return 0
}

// shownIn reports whether squeue shows a job: by default those not over.
func shownIn(v *view, states []string) bool {
	if len(states) == 0 {
		return !v.Over()
	}
	return slices.Contains(states, "ALL") || slices.Contains(states, v.State) || slices.Contains(states, compact(v.State))
}

func splitList(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

// column is one column of squeue's table.
type column struct {
	before string // text that stands before it
	field  squeueField
	width  int // 0: as wide as it gets
	right  bool
	after  string
}

type columns []column

// parseShort reads a format of squeue -o: %[.][width]letter and text between.
func parseShort(format string) columns {
	var table columns
	before := ""
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			before += format[i : i+1]
			continue
		}
		col := column{before: before}
		before = ""
		i++
		if i < len(format) && format[i] == '.' {
			col.right = true
			i++
		}
		for ; i < len(format) && format[i] >= '0' && format[i] <= '9'; i++ {
			col.width = col.width*10 + int(format[i]-'0')
		}
		if i < len(format) {
			col.field = squeueFields[squeueLetters[format[i]]]
		}
		table = append(table, col)
	}
	return append(table, column{before: before})
}

// parseLong reads a format of squeue -O: Name[:[.][width][suffix]], with a width
// of 20 where there is no colon.
func parseLong(format string) (columns, error) {
	var table columns
	for word := range strings.SplitSeq(format, ",") {
		name, rest, sized := strings.Cut(word, ":")
		col := column{width: 20}
		if sized {
			rest, col.right = strings.CutPrefix(rest, ".")
			digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
			col.width, _ = strconv.Atoi(rest[:digits])
			col.after = rest[digits:]
		}
		field, ok := squeueFields[strings.ToLower(name)]
		if !ok {
			return nil, errors.New(name)
		}
		col.field = field
		table = append(table, col)
	}
	return table, nil
}

func (t columns) header() string {
	return t.line(func(f squeueField) string { return f.title })
}

func (t columns) row(c *call, v *view) string {
	return t.line(func(f squeueField) string { return f.value(c, v) })
}

func (t columns) line(text func(squeueField) string) string {
	var b strings.Builder
	for _, col := range t {
		b.WriteString(col.before)
		if col.field.value == nil {
			continue
		}
		cell := text(col.field)
		if col.width > 0 {
			if runes := []rune(cell); len(runes) > col.width {
				cell = string(runes[:col.width])
			}
			if col.right {
				cell = fmt.Sprintf("%*s", col.width, cell)
			} else {
				cell = fmt.Sprintf("%-*s", col.width, cell)
			}
		}
		b.WriteString(cell + col.after)
	}
	return b.String()
}
