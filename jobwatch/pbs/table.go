package pbs

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/jobwatch/sched"
)

// qstatRow is a line of one of qstat's tables: the values below the table's headings, and what
// follows the last column or is on the lines below.
type qstatRow struct {
	heads, cells []string
	node         string
	note         string
}

// cell is the value below a heading, if there is one.
func (row *qstatRow) cell(head string) string {
	if i := slices.Index(row.heads, head); i >= 0 && row.cells[i] != "--" {
		return row.cells[i]
	}
	return ""
}

// The headings that are read. The second of the two columns named Time is the elapsed time.
const (
	headID      = "job id"
	headName    = "jobname"
	headUser    = "username"
	headQueue   = "queue"
	headState   = "s"
	headLimit   = "time"
	headElapsed = "elapsed"
)

// tableRule is the line of dashes below a table's headings.
var tableRule = regexp.MustCompile(`^-+(?: +-+)+\s*$`)

// parseTable reads the table of qstat -u, which lists all jobs over one connection; qstat -f
// makes one for each. The columns depend on version and options, so the headings are read.
func parseTable(out string, now time.Time) []api.Job {
	return lists.Map(splitTable(out), func(row qstatRow) api.Job { return row.job(now) })
}

func splitTable(out string) []qstatRow {
	rows := make([]qstatRow, 0, strings.Count(out, "\n"))
	var heads []string
	above := ""
	for line := range strings.SplitSeq(out, "\n") {
		line = strings.TrimRight(line, "\r")
		words := strings.Fields(line)
		switch {
		case tableRule.MatchString(line):
			heads = headings(above, line)
		case heads == nil || len(words) == 0:
		case len(words) >= len(heads) && tableID.MatchString(words[0]):
			row := qstatRow{heads: heads, cells: words[:len(heads)]}
			row.add(words[len(heads):])
			rows = append(rows, row)
		case len(rows) > 0 && strings.HasPrefix(line, " "):
			rows[len(rows)-1].add(words)
		}
		above = line
	}
	return rows
}

// emptyTable reports whether an answer without jobs is a valid empty list: it is blank, or
// ends below a table's headings.
func emptyTable(out string) bool {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := len(lines) - 1
	if last == 0 {
		return lines[0] == ""
	}
	return tableRule.MatchString(lines[last]) && slices.Contains(headings(lines[last-1], lines[last]), headID)
}

// tableID is a job's id in a table, cut where the column ends, often with a star.
var tableID = regexp.MustCompile(`^\d+(?:\[\d*\])?(?:\.\S*|\*)?$`)

// headings are the texts above each group of dashes.
func headings(above, rule string) []string {
	var heads []string
	starts := dashes.FindAllStringIndex(rule, -1)
	for i, at := range starts {
		end := len(above)
		if i+1 < len(starts) {
			end = min(end, starts[i+1][0])
		}
		head := strings.ToLower(strings.TrimSpace(above[min(at[0], end):end]))
		head = cmp.Or(map[string]string{"name": headName, "user": headUser}[head], head)
		if head == headLimit && slices.Contains(heads, headLimit) {
			head = headElapsed
		}
		heads = append(heads, head)
	}
	return heads
}

var dashes = regexp.MustCompile(`-+`)

// add reads what -n and -s print besides the columns: the nodes are one word, the comment is
// several.
func (row *qstatRow) add(words []string) {
	switch {
	case len(words) == 0 || len(words) == 1 && words[0] == "--":
	case len(words) == 1:
		row.node += words[0] // a long list of nodes continues on the next line
	default:
		row.note = strings.TrimSpace(row.note + " " + strings.Join(words, " "))
	}
}

// id is without the server's name if the table cut that.
func (row *qstatRow) id() string {
	id := row.cell(headID)
	if !strings.HasSuffix(id, "*") {
		return id
	}
	number, _, _ := strings.Cut(strings.TrimSuffix(id, "*"), ".")
	return number
}

func (row *qstatRow) job(now time.Time) api.Job {
	limit := tableDuration(row.cell(headLimit))
	r := record{
		"Job Id": row.id(), "Job_Name": row.cell(headName), "queue": strings.TrimSuffix(row.cell(headQueue), "*"),
		"job_state": row.cell(headState), "exec_host": row.node, "comment": row.note,
	}
	job := r.job()
	if elapsed := row.cell(headElapsed); elapsed != "" && job.State == api.JobRunning {
		// The table is accurate to the minute.
		job.Start = now.Add(-tableDuration(elapsed)).Truncate(time.Minute)
		if limit > 0 {
			job.End = job.Start.Add(limit)
		}
	}
	return job
}

// tableDuration reads HH:MM, and Torque's HH:MM:SS.
func tableDuration(s string) time.Duration {
	if strings.Count(s, ":") == 1 {
		s += ":00"
	}
	return sched.ParseClockTime(s)
}

// nameColumn is the width of a name in the table, and what older servers keep of one.
const nameColumn = 15

// sameName reports whether have, a name from PBS, may be want: older servers keep 15
// characters of a name. cut says that the table cut the name, so that only the server knows
// all of it.
func sameName(have, want string) (same, cut bool) {
	if have == want {
		return true, false
	}
	if stem, starred := strings.CutSuffix(have, "*"); starred {
		return strings.HasPrefix(want, stem) && len(want) > len(have), true
	}
	return len(have) == nameColumn && strings.HasPrefix(want, have), false
}
