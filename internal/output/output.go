// Package output reads what cells of notebooks printed while their page was closed, which tunctl's process inside
// the job has written down, and makes of it what a terminal and a notebook show. It opens no file itself.
package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/words"
)

// Cell is a run of a cell, with its output as a notebook would show it. The lines of its file are written to it,
// in pieces of any size.
type Cell struct {
	ID       string    `json:"id"`               // of the page's request
	CellID   string    `json:"cellId,omitempty"` // in the notebook
	Number   int       `json:"number,omitempty"` // in the notebook, from 1; 0: not known
	Notebook string    `json:"notebook,omitempty"`
	Root     string    `json:"root,omitempty"` // the folder that Notebook is relative to
	Code     string    `json:"code"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	State    string    `json:"state"`             // running, waiting (for input), finished, or ended (otherwise)
	Why      string    `json:"why,omitempty"`     // it waits, or has ended
	Missing  int64     `json:"missing,omitempty"` // bytes that were not kept, or cannot be read
	Outputs  []Output  `json:"outputs"`

	rest     []byte            // a line whose end is yet to come
	clearing bool              // the next output replaces the others
	displays map[string]Output // that may be updated, by their ids
	next     []any             // what was not shown yet: text of streams, and outputs
}

// Output is an output in the form of nbformat. The text of a stream is in pieces.
type Output map[string]any

// New returns a cell of which nothing is known yet.
func New() *Cell { return &Cell{State: "running", Outputs: []Output{}, displays: map[string]Output{}} }

// Write implements io.Writer.
func (c *Cell) Write(p []byte) (int, error) {
	for rest := p; ; {
		first, more, ended := bytes.Cut(rest, []byte("\n"))
		c.rest = append(c.rest, first...)
		if !ended {
			return len(p), nil
		}
		c.read(c.rest)
		c.rest, rest = c.rest[:0], more
	}
}

func (c *Cell) read(p []byte) {
	var l struct {
		Type, ID, Code, Cell, Notebook, Root, How string
		Started, Time                             float64
		Missing, Bytes                            int64
		Content                                   Output
	}
	if json.Unmarshal(p, &l) != nil {
		c.Missing += int64(len(p))
		return
	}
	c.State, c.Why = "running", ""
	switch l.Type {
	case "cell":
		c.ID, c.CellID, c.Code, c.Notebook, c.Root = l.ID, l.Cell, l.Code, l.Notebook, l.Root
		c.Started, c.Missing = unixTime(l.Started), l.Missing
	case "stream", "error", "display_data", "execute_result", "update_display_data":
		if l.Content != nil {
			c.add(l.Type, l.Content)
		}
	case "clear_output":
		if c.clearing = l.Content["wait"] == true; !c.clearing {
			c.clear()
		}
	case "input_request":
		c.State, c.Why = "waiting", oneLine(fmt.Sprint("for input: ", l.Content["prompt"]))
	case "beyond":
		c.Missing += l.Bytes
	case "end":
		c.State, c.Ended, c.Why = "ended", unixTime(l.Time), oneLine(l.How)
		if c.Why == "finished" {
			c.State, c.Why = "finished", ""
		}
	}
}

func (c *Cell) clear() {
	c.Outputs, c.next, c.displays, c.clearing = []Output{}, nil, map[string]Output{}, false
}

// add adds an output: a message of Jupyter has the fields of nbformat. An update of a display whose beginning the
// page has got is added, too.
func (c *Cell) add(kind string, o Output) {
	kind, isUpdate := strings.CutPrefix(kind, "update_")
	transient, _ := o["transient"].(map[string]any)
	id, _ := transient["display_id"].(string)
	if old := c.displays[id]; isUpdate && old != nil {
		old["data"], old["metadata"] = o["data"], o["metadata"]
		return
	}
	if c.clearing {
		c.clear()
	}
	delete(o, "transient")
	o["output_type"] = kind
	if id != "" {
		c.displays[id] = o
	}
	if text, ok := o["text"].(string); ok {
		c.next = append(c.next, text)
		if n := len(c.Outputs) - 1; n >= 0 {
			if pieces, ok := c.Outputs[n]["text"].([]string); ok && fmt.Sprint(c.Outputs[n]["name"]) == fmt.Sprint(o["name"]) {
				c.Outputs[n]["text"] = append(pieces, text)
				return
			}
		}
		o["text"] = []string{text}
	} else {
		c.next = append(c.next, o)
	}
	c.Outputs = append(c.Outputs, o)
}

func unixTime(seconds float64) time.Time {
	const year9999 = 253402300799 // JSON has no later times
	return time.UnixMilli(int64(max(0, min(seconds, year9999)) * 1000))
}

func oneLine(text string) string { return strings.Join(strings.Fields(api.Sanitize(text)), " ") }

// Path is where the notebook is; without Root, below the home folder.
func (c *Cell) Path() string { return path.Join(cmp.Or(c.Root, "."), path.Join("/", c.Notebook)) }

// Runs reports whether the cell has no end.
func (c *Cell) Runs() bool { return c.State == "running" || c.State == "waiting" }

// Title says in one line which cell it is, what became of it, and how much it has printed.
func (c *Cell) Title(now time.Time) string {
	title := cmp.Or(oneLine(c.Notebook), "a notebook")
	if c.Number > 0 {
		title += fmt.Sprintf(", cell %d", c.Number)
	}
	title += ", started " + api.ClockText(c.Started, now) + ", " + c.State
	if !c.Ended.IsZero() {
		title += " " + api.ClockText(c.Ended, now)
	}
	if c.Why != "" {
		title += " (" + c.Why + ")"
	}
	lines, pictures := 0, 0
	for _, o := range c.Outputs {
		if text, isPicture := o.text(); isPicture {
			pictures++
		} else {
			lines += strings.Count(strings.TrimSuffix(text, "\n")+"\n", "\n")
		}
	}
	title += ": " + words.Count(lines, "line")
	if pictures > 0 {
		title += ", " + words.Count(pictures, "picture")
	}
	if c.Missing > 0 {
		title += ", " + words.Bytes(c.Missing) + " not kept"
	}
	return title
}

// Next is the text for a terminal that came since the last call, with the control characters of the kernel: its
// last lines, and how many are before these. A picture is named.
func (c *Cell) Next(most int) (text string, before int) {
	var b []byte
	for _, x := range c.next {
		if o, ok := x.(Output); ok {
			x, _ = o.text()
			b = append(bytes.TrimSuffix(b, []byte("\n")), "\n"[:min(1, len(b))]...)
		}
		b = append(b, x.(string)...)
	}
	c.next = nil
	lines := strings.SplitAfter(string(b), "\n")
	before = max(0, len(lines)-1-most)
	return strings.Join(lines[before:], ""), before
}

// text is what a terminal shows of an output, and whether that names a picture.
func (o Output) text() (text string, isPicture bool) {
	if pieces, ok := o["text"].([]string); ok {
		return strings.Join(pieces, ""), false
	}
	data, _ := o["data"].(map[string]any)
	kinds := slices.Sorted(maps.Keys(data))
	for _, kind := range kinds {
		if strings.HasPrefix(kind, "image/") {
			size := len(fmt.Sprint(data[kind])) * 3 / 4 // of base64
			return fmt.Sprintf("[picture: %s, %s]\n", kind, words.Bytes(int64(size))), true
		}
	}
	text, ok := data["text/plain"].(string)
	if !ok {
		text = fmt.Sprint(kinds)
	}
	if lines, ok := o["traceback"].([]any); ok {
		text = strings.Join(lists.Map(lines, func(x any) string { return fmt.Sprint(x) }), "\n")
	}
	return strings.TrimSuffix(text, "\n") + "\n", false
}

// Original is what is used of the user's own notebook.
type Original struct {
	Metadata map[string]any
	Cells    []struct{ ID string }
}

// Position is the number of a cell in the notebook, from 1; 0: it has none of that id.
func (n *Original) Position(id string) int {
	return 1 + slices.IndexFunc(n.Cells, func(x struct{ ID string }) bool { return id != "" && x.ID == id })
}

var validID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Recovered is a notebook (nbformat 4.5) of these cells, for the kernel of the original.
func Recovered(cells []*Cell, original *Original) ([]byte, error) {
	list, used := []any{}, map[string]bool{}
	for _, c := range cells {
		id, outputs := c.CellID, c.Outputs
		for n := 1; !validID.MatchString(id) || used[id]; n++ { // one that ran twice is there twice
			id = fmt.Sprintf("recovered-%d", n)
		}
		used[id] = true
		if c.Missing > 0 {
			note := fmt.Sprintf("tunctl: %s of the output were not kept\n", words.Bytes(c.Missing))
			outputs = append(slices.Clip(outputs), Output{"output_type": "stream", "name": "stderr", "text": note})
		}
		list = append(list, map[string]any{"cell_type": "code", "execution_count": nil, "id": id, "metadata": struct{}{}, "outputs": outputs, "source": c.Code})
	}
	metadata := map[string]any{}
	for _, name := range []string{"kernelspec", "language_info"} {
		if x, ok := original.Metadata[name]; ok {
			metadata[name] = x
		}
	}
	return json.MarshalIndent(map[string]any{"cells": list, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, "", " ")
}
