package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/suggest"
)

// field is a key that a table of the config may have.
type field[T any] struct {
	key     string
	example string // a value, as it would be written
	read    func(in *input, into *T)
}

// input is the value of a key while it is read into its field.
type input struct {
	src     *source
	table   *table
	entry   *entry
	example string
}

// readTable reads every key of t by the fields it may have.
func readTable[T any](src *source, t *table, fields []field[T], into *T) {
	for _, e := range t.entries {
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.key == e.key })
		if i < 0 {
			unknownKey(src, t, e, keysOf(fields))
			continue
		}
		fields[i].read(&input{src, t, e, fields[i].example}, into)
	}
}

func keysOf[T any](fields []field[T]) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// addError reports a problem of the value.
func (in *input) addError(at span, hint, format string, args ...any) {
	in.src.addError(at, hint, format, args...)
}

// mustBe reports that the value at v is of the wrong type.
func (in *input) mustBe(v value, wanted string) {
	at := v.at
	if v.table != nil && v.table.origin != inline {
		at = v.table.at
	}
	in.addError(at, "write: "+in.entry.key+" = "+in.example, "%q%s must be %s, not %s",
		in.entry.key, in.table.where(), wanted, kindName(v.kind))
}

// text reads a line of text that is not empty.
func (in *input) text() (string, bool) {
	v := in.entry.value
	if v.kind != unstable.String {
		in.mustBe(v, "text in quotes")
		return "", false
	}
	return in.line(v)
}

// line checks that a string is a line of text that is not empty.
func (in *input) line(v value) (string, bool) {
	switch {
	case strings.TrimSpace(v.text) == "":
		in.addError(v.at, "write: "+in.entry.key+" = "+in.example, "%q%s is empty", in.entry.key, in.table.where())
		return "", false
	case strings.ContainsFunc(v.text, unicode.IsControl):
		in.addError(v.at, "", "%q%s must be one line without control characters", in.entry.key, in.table.where())
		return "", false
	}
	return v.text, true
}

// flag reads true or false.
func (in *input) flag() (on, ok bool) {
	v := in.entry.value
	if v.kind != unstable.Bool {
		in.mustBe(v, "true or false")
		return false, false
	}
	return v.text == "true", true
}

// oneOf reads one word of a set.
func (in *input) oneOf(words ...string) (string, bool) {
	if v := in.entry.value; v.kind != unstable.String {
		in.mustBe(v, "one of "+alternatives(words))
		return "", false
	}
	return in.word(in.entry.value, words)
}

// word checks that a string is one of a set.
func (in *input) word(v value, words []string) (string, bool) {
	if slices.Contains(words, v.text) {
		return v.text, true
	}
	in.addError(v.at, didYouMean(v.text, words), "%s is not one of %s", strconv.Quote(v.text), alternatives(words))
	return "", false
}

// list reads a list of strings; each is handed to item with its place.
func (in *input) list(item func(v value)) {
	v := in.entry.value
	if v.kind != unstable.Array {
		in.mustBe(v, "a list")
		return
	}
	for _, one := range v.items {
		if one.kind != unstable.String {
			in.mustBe(one, "a list of texts in quotes")
			continue
		}
		item(one)
	}
}

// port reads a port's number; 0 if it is not valid.
func (in *input) port(into *int) {
	v := in.entry.value
	if v.kind != unstable.Integer {
		in.mustBe(v, "a number")
		return
	}
	port, err := strconv.ParseInt(v.text, 0, 32)
	if err != nil || port < 1 || port > 65535 {
		in.addError(v.at, "", "the port %s is not between 1 and 65535", v.text)
		return
	}
	*into = int(port)
}

// setText makes the reader of a field that is a line of text.
func setText[T any](where func(*T) *string) func(*input, *T) {
	return func(in *input, into *T) {
		if text, ok := in.text(); ok {
			*where(into) = text
		}
	}
}

// setFlag makes the reader of a field that is true or false.
func setFlag[T any](where func(*T) *bool) func(*input, *T) {
	return func(in *input, into *T) {
		if on, ok := in.flag(); ok {
			*where(into) = on
		}
	}
}

// setWord makes the reader of a field that is one word of a set.
func setWord[T any, W ~string](where func(*T) *W, words ...W) func(*input, *T) {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return func(in *input, into *T) {
		if word, ok := in.oneOf(list...); ok {
			*where(into) = W(word)
		}
	}
}

// kindName is what a person calls a value's type.
func kindName(kind unstable.Kind) string {
	switch kind {
	case unstable.String:
		return "text"
	case unstable.Bool:
		return "true or false"
	case unstable.Integer:
		return "a number"
	case unstable.Float:
		return "a number with a decimal point"
	case unstable.Array:
		return "a list"
	case unstable.Table:
		return "a section"
	default:
		return "a date or time"
	}
}

// alternatives joins words for a sentence: "a", "b" or "c".
func alternatives(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = strconv.Quote(w)
	}
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// didYouMean is the hint with the nearest of the words, if one is near.
func didYouMean(word string, words []string) string {
	if near := suggest.Nearest(word, words); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", near[0])
	}
	return ""
}

// block reads text of one or more lines.
func (in *input) block() (string, bool) {
	v := in.entry.value
	if v.kind != unstable.String {
		in.mustBe(v, "text in quotes")
		return "", false
	}
	return strings.TrimSpace(strings.ReplaceAll(v.text, "\r\n", "\n")), true
}

// scalar reads text or a number as text.
func (in *input) scalar(v value) (string, bool) {
	switch v.kind {
	case unstable.String:
		return in.line(v)
	case unstable.Integer, unstable.Float:
		return v.text, true
	}
	in.mustBe(v, "text in quotes or a number")
	return "", false
}

// setTexts makes the reader of a field that is a list of lines.
func setTexts[T any](where func(*T) *[]string) func(*input, *T) {
	return func(in *input, into *T) {
		list := []string{}
		in.list(func(v value) {
			if text, ok := in.line(v); ok {
				list = append(list, text)
			}
		})
		*where(into) = list
	}
}

// setTable makes the reader of a field that is a table with keys of its own.
func setTable[T, Sub any](fields func() []field[Sub], where func(*T) *Sub) func(*input, *T) {
	return func(in *input, into *T) {
		if t := in.entry.value.table; t != nil {
			readTable(in.src, t, fields(), where(into))
			return
		}
		in.mustBe(in.entry.value, "a table")
	}
}
