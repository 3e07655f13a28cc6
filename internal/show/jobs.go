package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// Jobs has a row per job, with why it waits or how it ended below.
func Jobs(list []api.HostJob, severalHosts bool, now time.Time) *term.Table {
	t := &term.Table{
		Header: []string{"JOB", "NAME", "STATE", "NODE", "WHEN"},
		Whole:  []string{"JOB", "STATE", "NODE", "WHEN", "HOST"},
	}
	if severalHosts { // then it is part of what names a job
		t.Header, t.Optional = append(t.Header, "HOST"), []string{"WHEN"}
	}
	for _, j := range list {
		cells := []term.Cell{
			{Text: j.ID, Colour: term.Bold},
			{Text: term.Truncate(j.Name, nameWidth)},
			{Text: words.Job(j.State), Colour: jobColours[j.State]},
			{Text: orDash(j.Node)},
			{Text: whenText(j.Job, now)},
		}
		if severalHosts {
			cells = append(cells, term.Cell{Text: j.Host})
		}
		t.Add([]string{Why(j.Job)}, cells...)
	}
	return t
}

// nameWidth is how much of a job's name is shown, so that the other columns fit 80 columns.
const nameWidth = 20

var jobColours = map[api.JobState]string{
	api.JobRunning: term.Green, api.JobFinished: term.Green, api.JobCancelled: term.Grey,
	api.JobFailed: term.Red, api.JobOOM: term.Red, api.JobNodeFail: term.Red, api.JobNeverRan: term.Red,
	api.JobHeld: term.Yellow, api.JobTimeout: term.Yellow, api.JobPreempted: term.Yellow, api.JobUnknown: term.Yellow,
	api.JobQueued: "", api.JobConfiguring: "", api.JobCompleting: "",
}

// whenText is the time that matters: when the job ended, ends or starts.
func whenText(j api.Job, now time.Time) string {
	switch {
	case j.State.Ended() && !j.End.IsZero():
		return "ended " + api.ClockText(j.End, now)
	case j.State.Waiting() && j.ExpectedStart.After(now):
		return "from " + api.ClockText(j.ExpectedStart, now)
	case j.State.Waiting() && !j.Submitted.IsZero():
		return "since " + api.ClockText(j.Submitted, now)
	case j.State == api.JobRunning && j.End.After(now):
		return "until " + api.ClockText(j.End, now)
	}
	return "-"
}

// Why says why a job waits or how it ended: in words or, without any, in the scheduler's own.
func Why(j api.Job) string {
	state, _, _ := strings.Cut(j.Reason, " by ") // of Slurm, with the number of a user
	switch {
	case j.State == api.JobFailed && j.Exit != nil && *j.Exit != 0 && !strings.Contains(j.Hint, "exit status"):
		return strings.TrimSuffix(fmt.Sprintf("exit status %d; %s", *j.Exit, j.Hint), "; ")
	case j.Hint != "":
		return j.Hint
	case j.State == api.JobRunning, strings.EqualFold(state, string(j.State)): // also the comment of PBS
		return ""
	}
	return j.Reason
}

// Job describes a job so that the user knows which one it is, and since when.
func Job(j api.Job, now time.Time) string {
	text := "job " + j.ID
	if j.Name != "" {
		text += fmt.Sprintf(" %q", j.Name)
	}
	text += ", " + words.Job(j.State)
	switch {
	case j.State.Waiting() && !j.Submitted.IsZero():
		text += " since " + api.ClockText(j.Submitted, now)
	case j.Node != "" && !j.Start.IsZero():
		text += fmt.Sprintf(" on %s since %s", j.Node, api.ClockText(j.Start, now))
	}
	return text
}

// JobPage draws everything known about one job.
func JobPage(l term.Layout, j api.HostJob, now time.Time) string {
	return Jobs([]api.HostJob{j}, true, now).Draw(l) + "\n" + factsText(l, JobFacts(j.Job, j.Host, now))
}

// JobFacts are names and values; an empty value is unknown.
func JobFacts(j api.Job, host string, now time.Time) [][2]string {
	ends, end := "ended", minuteTime(j.End)
	if !j.State.Ended() {
		ends = "time limit"
	}
	if end == "" && j.Limit > 0 {
		end = api.DurationText(time.Duration(j.Limit) * time.Second)
	}
	facts := [][2]string{
		{"job", j.ID},
		{"name", j.Name},
		{"state", words.Job(j.State)},
		{"reason", Why(j)},
		{"host", host},
		{"node", cmp.Or(j.Nodes, j.Node)},
		{"queue", j.Queue},
		{"submitted", minuteTime(j.Submitted)},
		{"started", minuteTime(j.Start)},
		{ends, end},
		{"asks for", j.Asks},
		{"log", j.Log},
		{"other logs", strings.Join(j.OtherLogs, ", ")},
	}
	if j.State.Waiting() && j.ExpectedStart.After(now) {
		facts = append(facts, [2]string{"expected start", minuteTime(j.ExpectedStart)})
	}
	if j.Restarts > 0 {
		facts = append(facts, [2]string{"restarts", fmt.Sprint(j.Restarts)})
	}
	for i := range facts {
		facts[i][1] = strings.ReplaceAll(api.Sanitize(facts[i][1]), "\n", " ")
	}
	return facts
}

// Preview prints what is known about one job, without its script.
func Preview(w io.Writer, p api.Preview, now time.Time) {
	fact := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-8s %s\n", what, api.Sanitize(text))
		}
	}
	fact("command", p.Command)
	fact("with", p.With.String())
	if p.Cost != "" {
		fact("cost", p.Cost+" if it runs to its time limit, an estimate")
	}
	fact("start", Start(p, now))
	fact("waited", p.Waited)
}

// PreviewText is a preview in a sentence.
func PreviewText(p api.Preview, now time.Time) string {
	var parts []string
	if p.Cost != "" {
		parts = append(parts, "cost: "+p.Cost+" if it runs to its time limit")
	}
	if start := Start(p, now); start != "" {
		parts = append(parts, "start: "+start)
	}
	if p.Refused != "" {
		parts = append(parts, p.Refused)
	}
	return words.Sentence(strings.Join(parts, "; "))
}

// Previews prints variants of a job as a table.
func Previews(w io.Writer, list []api.Preview, now time.Time) {
	table := term.Table{Header: []string{"WITH", "COST", "START"}, Whole: []string{"WITH", "START"}}
	said := map[string]bool{}
	for _, p := range list {
		start, notes := "-", []string(nil)
		switch {
		case p.Refused != "":
			start, notes = "refused", []string{p.Refused}
		case !p.Start.IsZero():
			start = strings.TrimSuffix(Start(api.Preview{Start: p.Start}, now), ", an estimate")
		case !said[p.Why]:
			notes = append(notes, p.Why)
			said[p.Why] = true
		}
		table.Add(notes, term.Cell{Text: p.With.String(), Colour: term.Bold}, term.Cell{Text: orDash(p.Cost)}, term.Cell{Text: start})
	}
	fmt.Fprint(w, table.Draw(term.LayoutFor(w)))
	fmt.Fprintln(w, "Cost and start are an estimate; the cost is that of the whole time limit.")
	if waited := list[0].Waited; waited != "" {
		fmt.Fprintln(w, words.Capital(waited)+".")
	}
}

// Start is when a job would start, or what is known instead.
func Start(p api.Preview, now time.Time) string {
	switch {
	case p.Refused != "":
		return "never: the scheduler would refuse it"
	case p.Start.IsZero():
		return p.Why
	}
	text := api.ClockText(p.Start, now)
	if p.Start.Sub(now) < time.Minute {
		text = "now"
	}
	text += ", an estimate"
	if p.Why != "" {
		text += "; " + p.Why
	}
	return text
}
