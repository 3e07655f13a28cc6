package output

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const head = `{"type":"cell","id":"m1","code":"train()","cell":"c1","notebook":"work/train.ipynb","root":"/home/u","started":1795039000,"missing":0}` + "\n"

func lineOf(kind, content string) string {
	return fmt.Sprintf(`{"type":%q,"content":%s}`+"\n", kind, content)
}

func stdout(text string) string {
	return lineOf("stream", fmt.Sprintf(`{"name":"stdout","text":%q}`, text))
}

func end(how string) string {
	return fmt.Sprintf(`{"type":"end","time":1795042000,"how":%q}`+"\n", how)
}

func TestCell(t *testing.T) {
	figure := lineOf("display_data", `{"data":{"image/png":"iVBORw0KGgo=","text/plain":"Figure"},"metadata":{}}`)
	progress := func(kind, text string) string {
		return lineOf(kind, fmt.Sprintf(`{"data":{"text/plain":%q},"metadata":{},"transient":{"display_id":"d"}}`, text))
	}
	for name, tt := range map[string]struct{ file, title, text, outputs string }{
		"running":               {"", "running: 0 lines", "", `[]`},
		"stream text is joined": {stdout("a\n") + stdout("b"), "running: 2 lines", "a\nb", `[{"name":"stdout","output_type":"stream","text":["a\n","b"]}]`},
		"both streams": {
			stdout("a\n") + lineOf("stream", `{"name":"stderr","text":"b\n"}`) + stdout("c\n"), "running: 3 lines", "a\nb\nc\n",
			`[{"name":"stdout","output_type":"stream","text":["a\n"]},{"name":"stderr","output_type":"stream","text":["b\n"]},{"name":"stdout","output_type":"stream","text":["c\n"]}]`,
		},
		"carriage returns": {stdout("1%\r") + stdout("2%\r"), "running: 1 line", "1%\r2%\r", `[{"name":"stdout","output_type":"stream","text":["1%\r","2%\r"]}]`},
		"a picture behind text": {
			stdout("a") + figure, "running: 1 line, 1 picture", "a\n[picture: image/png, 9 B]\n",
			`[{"name":"stdout","output_type":"stream","text":["a"]},{"data":{"image/png":"iVBORw0KGgo=","text/plain":"Figure"},"metadata":{},"output_type":"display_data"}]`,
		},
		"a result":    {lineOf("execute_result", `{"data":{"text/plain":"42"},"metadata":{},"execution_count":3}`), "running: 1 line", "42\n", `[{"data":{"text/plain":"42"},"execution_count":3,"metadata":{},"output_type":"execute_result"}]`},
		"only a page": {lineOf("display_data", `{"data":{"text/html":"b"},"metadata":{}}`), "running: 1 line", "[text/html]\n", `[{"data":{"text/html":"b"},"metadata":{},"output_type":"display_data"}]`},
		"an error": {
			lineOf("error", `{"ename":"E","evalue":"","traceback":["one","\u001b[31mtwo\u001b[0m"]}`) + end("finished"), "finished 22:46: 2 lines", "one\n\x1b[31mtwo\x1b[0m\n",
			`[{"ename":"E","evalue":"","output_type":"error","traceback":["one","\u001b[31mtwo\u001b[0m"]}]`,
		},
		"cleared":                    {stdout("a") + lineOf("clear_output", `{"wait":false}`), "running: 0 lines", "", `[]`},
		"cleared by the next output": {stdout("a") + lineOf("clear_output", `{"wait":true}`) + stdout("b"), "running: 1 line", "b", `[{"name":"stdout","output_type":"stream","text":["b"]}]`},
		"cleared, but nothing came":  {stdout("a") + lineOf("clear_output", `{"wait":true}`), "running: 1 line", "a", `[{"name":"stdout","output_type":"stream","text":["a"]}]`},
		"a display that changed": {
			progress("display_data", "1") + stdout("a") + progress("update_display_data", "2"), "running: 2 lines", "2\na",
			`[{"data":{"text/plain":"2"},"metadata":{},"output_type":"display_data"},{"name":"stdout","output_type":"stream","text":["a"]}]`,
		},
		"a display of the page":  {progress("update_display_data", "2") + progress("update_display_data", "3"), "running: 1 line", "3\n", `[{"data":{"text/plain":"3"},"metadata":{},"output_type":"display_data"}]`},
		"waiting":                {lineOf("input_request", `{"prompt":"Na\u001b[2Jme?\n"}`), "waiting (for input: Name?): 0 lines", "", `[]`},
		"waited":                 {lineOf("input_request", `{"prompt":"Name?"}`) + stdout("a"), "running: 1 line", "a", `[{"name":"stdout","output_type":"stream","text":["a"]}]`},
		"killed":                 {end("the kernel died"), "ended 22:46 (the kernel died): 0 lines", "", `[]`},
		"too much":               {stdout("a") + `{"type":"beyond","bytes":2000000}` + "\n" + end("finished"), "finished 22:46: 1 line, 2.0 MB not kept", "a", `[{"name":"stdout","output_type":"stream","text":["a"]}]`},
		"garbage":                {"garbage\n" + stdout("a") + "\n[1]\n" + lineOf("stream", `"x"`), "running: 1 line, 41 B not kept", "a", `[{"name":"stdout","output_type":"stream","text":["a"]}]`},
		"what is not of a kind":  {lineOf("comm_msg", `{"data":1}`) + lineOf("stream", "null") + lineOf("display_data", "null"), "running: 0 lines", "", `[]`},
		"fields of other types":  {lineOf("error", `{"traceback":3}`) + lineOf("display_data", `{"data":[],"transient":7}`), "running: 2 lines", "[]\n[]\n", `[{"output_type":"error","traceback":3},{"data":[],"output_type":"display_data"}]`},
		"a line without its end": {stdout("a") + strings.TrimSuffix(stdout("b"), "\n"), "running: 1 line", "a", `[{"name":"stdout","output_type":"stream","text":["a"]}]`},
		"a time that cannot be":  {`{"type":"end","time":1e300,"how":"finished"}` + "\n", "finished 31 Dec 23:59: 0 lines", "", `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 7, len(head) + len(tt.file)} {
				c, rest := New(), []byte(head+tt.file)
				for len(rest) > 0 {
					n, err := c.Write(rest[:min(piece, len(rest))])
					if err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				now := time.Unix(1795043000, 0).UTC()
				if got, want := c.Title(now), "work/train.ipynb, started 21:56, "+tt.title; got != want {
					t.Errorf("in pieces of %d, the title is %q, want %q", piece, got, want)
				}
				if got, err := json.Marshal(c.Outputs); err != nil || string(got) != tt.outputs {
					t.Errorf("in pieces of %d, the outputs are %s (%v), want %s", piece, got, err, tt.outputs)
				}
				if got, _ := c.Next(10); got != tt.text {
					t.Errorf("in pieces of %d, the text is %q, want %q", piece, got, tt.text)
				}
				if got, _ := c.Next(10); got != "" {
					t.Errorf("in pieces of %d, %q is new again", piece, got)
				}
				if _, err := json.Marshal(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestNext(t *testing.T) {
	for name, tt := range map[string]struct {
		text   string
		most   int
		want   string
		before int
	}{
		"all":               {"a\nb\nc\n", 3, "a\nb\nc\n", 0},
		"the last":          {"a\nb\nc\n", 2, "b\nc\n", 1},
		"an unfinished one": {"a\nb\nc", 2, "a\nb\nc", 0},
		"none":              {"", 2, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			_, _ = c.Write([]byte(stdout(tt.text)))
			if got, before := c.Next(tt.most); got != tt.want || before != tt.before {
				t.Errorf("%q and %d before, want %q and %d", got, before, tt.want, tt.before)
			}
		})
	}
}

func TestRecovered(t *testing.T) {
	var original Original
	if err := json.Unmarshal([]byte(`{"cells":[{"id":"m"},{"id":"c1"},{}],"metadata":{"kernelspec":{"name":"ir"},"widgets":{}},"nbformat":4}`), &original); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"c1": 2, "no": 0, "": 0} {
		if got := original.Position(id); got != want {
			t.Errorf("cell %q is number %d, want %d", id, got, want)
		}
	}
	var cells []*Cell
	for _, id := range []string{"c1", "c1", "not/valid", "recovered-1"} {
		c := New()
		_, _ = c.Write([]byte(strings.Replace(head, "c1", id, 1) + stdout("a")))
		cells = append(cells, c)
	}
	_, _ = cells[0].Write([]byte("garbage\n"))
	made, err := Recovered(cells, &original)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Cells []struct {
			ID, Source string
			CellType   string `json:"cell_type"`
			Outputs    []struct{ Text any }
		}
		Metadata map[string]any
		Nbformat int
	}
	if err := json.Unmarshal(made, &got); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range got.Cells {
		ids = append(ids, c.ID)
	}
	if want := "c1 recovered-1 recovered-2 recovered-3"; strings.Join(ids, " ") != want {
		t.Errorf("the ids are %v, want %s", ids, want)
	}
	if c := got.Cells[0]; c.Source != "train()" || c.CellType != "code" || len(c.Outputs) != 2 || c.Outputs[1].Text != "tunctl: 7 B of the output were not kept\n" {
		t.Errorf("the first cell is %+v", c)
	}
	if len(got.Metadata) != 1 || got.Metadata["kernelspec"] == nil || got.Nbformat != 4 {
		t.Errorf("the notebook is of format %d, with %v", got.Nbformat, got.Metadata)
	}
	if n := len(cells[0].Outputs); n != 1 {
		t.Errorf("the cell has %d outputs afterwards, want 1", n)
	}
}
