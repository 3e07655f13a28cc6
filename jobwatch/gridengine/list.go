package gridengine

import (
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// row is a job in the list: a job, a running task of an array, or those of its tasks that
// wait together.
type row struct {
	number, tasks string
	name, owner   string
	state         string // letters, as "hqw"
	group         string // "running", "pending" or "zombie"
	queue, node   string
	submitted     time.Time
	start         time.Time
	limit         time.Duration // h_rt, if the job asked for it
	queues        []string      // that it asked for
}

// parseList reads the answer of qstat -r -xml. If an option of the user adds a row for
// every slot of a parallel job, only that of its first host counts.
func parseList(out string) ([]row, error) {
	if i := strings.Index(out, "<?xml"); i > 0 {
		out = out[i:] // after the words of a wrapper
	}
	doc, err := parseXML(out)
	if err != nil {
		return nil, err
	}
	if doc.children[0].name != "job_info" {
		return nil, errors.New("not a list of jobs")
	}
	return doc.rows(""), nil
}

func (e *element) rows(queue string) []row {
	var rows []row
	for _, c := range e.children {
		switch {
		case c.name == "job_list" && c.child("master") != "SLAVE":
			rows = append(rows, c.row(queue))
		case c.name == "Queue-List": // with -f
			rows = append(rows, c.rows(c.child("name"))...)
		case c.name != "job_list":
			rows = append(rows, c.rows(queue)...)
		}
	}
	return rows
}

func (e *element) row(queue string) row {
	r := row{
		number: e.child("JB_job_number"), tasks: e.child("tasks"),
		name: cmp.Or(e.child("full_job_name"), e.child("JB_name")), owner: e.child("JB_owner"),
		state: e.child("state"), group: e.state,
		submitted: sched.ParseTime(e.child("JB_submission_time")), start: sched.ParseTime(e.child("JAT_start_time")),
	}
	r.queue, r.node, _ = strings.Cut(cmp.Or(e.child("queue_name"), queue), "@")
	for _, c := range e.children {
		switch {
		case c.name == "hard_request" && c.item == "h_rt":
			r.limit = sched.ParseClockTime(c.text)
		case c.name == "hard_req_queue":
			r.queues = append(r.queues, c.text)
		}
	}
	return r
}

func (r row) id() string { return jobID(r.number, r.tasks) }

func (r row) job() api.Job {
	job := api.Job{ID: r.id(), Name: r.name, Queue: r.queue, Submitted: r.submitted}
	if r.tasks != "" && !basic.IsTaskRange(r.tasks) {
		job.Task = r.tasks
	}
	r.setState(&job)
	if job.State.Waiting() {
		if len(r.queues) == 1 {
			job.Queue = r.queues[0]
		}
		return job
	}
	job.Node, job.Start = r.node, r.start
	if r.limit > 0 && !r.start.IsZero() {
		job.End = r.start.Add(r.limit)
	}
	return job
}

// setState reads the letters of a state. Several may apply: a job that is held while it runs
// is "hr", one in error that waits "Eqw", one that runs again "Rr".
func (r row) setState(job *api.Job) {
	has := func(letters string) bool { return strings.ContainsAny(r.state, letters) }
	runs := r.group == "running" || has("rts") && !has("qw")
	if has("R") {
		job.Restarts = 1 // or more: it does not say
	}
	switch {
	case has("z") || r.group == "zombie" || r.group == "finished":
		job.State = api.JobFinished
	case has("d"):
		job.State = api.JobCompleting
	case has("E"):
		job.State, job.Reason = api.JobHeld, r.state
		job.Hint = errorHint("")
	case has("sSTNP") && runs:
		job.State, job.Reason, job.Hint = api.JobRunning, api.ReasonSuspended, sched.SuspendedHint
	case has("r") || runs && !has("t"):
		job.State = api.JobRunning
	case has("t"):
		job.State = api.JobConfiguring
	case has("h"):
		job.State, job.Reason = api.JobHeld, r.state
		job.Hint = "the job is held: release your own hold with qrls; otherwise it waits for another job, or the site holds it"
	case has("qwRP") || r.group == "pending":
		job.State = api.JobQueued
	default:
		job.State = api.JobUnknown
	}
}

// errorHint says what to do about a job in error, for which Grid Engine gave that cause.
func errorHint(cause string) string {
	words := "Grid Engine could not start it"
	if cause != "" {
		words += ": " + cause
	}
	return sched.Reason{Words: words + ". Cancel it, fix this and submit it again; or clear the error with qmod -cj", Never: true}.Hint()
}

// element is an element of an answer in XML. Versions wrap their lists in different
// elements, so elements are found by name at any depth.
type element struct {
	name, text string
	state      string // the attribute of that name
	item       string // the attribute "name"
	children   []*element
}

// parseXML reads an answer. After an error it returns what was read before.
func parseXML(out string) (*element, error) {
	root := &element{}
	open := []*element{root}
	decoder := xml.NewDecoder(strings.NewReader(cleanXML(out)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && len(root.children) > 0 {
			return root, nil
		}
		if err != nil {
			return root, err
		}
		top := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			e := &element{name: t.Name.Local}
			for _, a := range t.Attr {
				switch a.Name.Local {
				case "state":
					e.state = a.Value
				case "name":
					e.item = a.Value
				}
			}
			top.children = append(top.children, e)
			open = append(open, e)
		case xml.EndElement:
			top.text = strings.TrimSpace(top.text)
			open = open[:len(open)-1]
		case xml.CharData:
			top.text += string(t)
		}
	}
}

// cleanXML replaces what XML does not allow, and Grid Engine prints as it is: other encodings
// and control characters in names and variables.
func cleanXML(out string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(out, "?"))
}

// each calls f for every element in this one, in their order.
func (e *element) each(f func(*element)) {
	for _, c := range e.children {
		f(c)
		c.each(f)
	}
}

// all are the elements of that name, at any depth.
func (e *element) all(name string) []*element {
	var found []*element
	e.each(func(x *element) {
		if x.name == name {
			found = append(found, x)
		}
	})
	return found
}

// value is the text of the first element of that name, at any depth.
func (e *element) value(name string) string {
	if found := e.all(name); len(found) > 0 {
		return found[0].text
	}
	return ""
}

// child is the text of the element of that name directly in this one.
func (e *element) child(name string) string {
	for _, c := range e.children {
		if c.name == name {
			return c.text
		}
	}
	return ""
}
