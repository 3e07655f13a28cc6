package configs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/suggest"
)

// field is a key that a table of the config may have.
type field struct {
	key     string
	example string // a value, as it would be written
	read    func(in *input)
}

// input is a key and its value while it is read.
type input struct {
	*node
	src     *source
	example string
}

// readTable reads every key of t by the fields it may have.
func (s *source) readTable(t *node, fields []field) {
	for _, n := range t.items {
		if f, ok := find(fields, func(f field) bool { return f.key == n.key }); ok {
			f.read(&input{n, s, f.example})
		} else {
			s.unknownKey(n, keysOf(fields))
		}
	}
}

func keysOf(fields []field) []string { return each(fields, func(f field) string { return f.key }) }

// fail reports a problem of a value, with the example as the hint.
func (in *input) fail(v *node, format string, args ...any) {
	in.src.addError(v.at, "write: "+in.key+" = "+in.example, format, args...)
}

// mustBe reports that a value is of the wrong type.
func (in *input) mustBe(v *node, wanted string) {
	in.fail(v, "%q%s must be %s, not %s", in.key, in.where(), wanted, kindName(v.kind))
}

// is reports whether the value is of that type, which it must be.
func (in *input) is(kind unstable.Kind, wanted string) bool {
	if in.kind != kind {
		in.mustBe(in.node, wanted)
	}
	return in.kind == kind
}

// rule is what a text must be.
type rule struct {
	ok        func(text string) bool
	complaint string // what follows the text in the message
}

func matching(pattern, complaint string) rule {
	return rule{regexp.MustCompile(pattern).MatchString, complaint}
}

// isPrintable checks that a text is not empty, and has no control characters but those allowed.
func (in *input) isPrintable(v *node, text, allowed, wanted string) bool {
	switch {
	case strings.TrimSpace(text) == "":
		in.fail(v, "%q%s is empty", in.key, in.where())
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) }):
		in.src.addError(v.at, "", "%q%s must be %s without control characters", in.key, in.where(), wanted)
	default:
		return true
	}
	return false
}

// line checks that a string is a line of text that is not empty, and keeps to the rules.
func (in *input) line(v *node, rules ...rule) bool {
	if !in.isPrintable(v, v.text, "", "one line") {
		return false
	}
	broken, found := find(rules, func(r rule) bool { return !r.ok(v.text) })
	if found {
		in.fail(v, "%q %s", v.text, broken.complaint)
	}
	return !found
}

// isLine checks that the value is a line of text that is not empty.
func (in *input) isLine(rules ...rule) bool {
	return in.is(unstable.String, "text in quotes") && in.line(in.node, rules...)
}

// text makes the reader of a line of text.
func text(into *string, rules ...rule) func(*input) {
	return func(in *input) {
		if in.isLine(rules...) {
			*into = in.text
		}
	}
}

// texts makes the reader of a list of lines.
func texts(into *[]string, rules ...rule) func(*input) {
	return func(in *input) {
		*into = []string{}
		in.list(func(v *node) {
			if in.line(v, rules...) {
				*into = append(*into, v.text)
			}
		})
	}
}

// boolean makes the reader of true or false.
func boolean(into *bool) func(*input) {
	return func(in *input) {
		if in.is(unstable.Bool, "true or false") {
			*into = in.text == "true"
		}
	}
}

// choice makes the reader of true or false where neither is the default.
func choice(into **bool) func(*input) {
	return func(in *input) {
		*into = new(bool)
		boolean(*into)(in)
	}
}

// word makes the reader of one word of a set.
func word[W ~string](into *W, words ...W) func(*input) {
	list := each(words, func(w W) string { return string(w) })
	return func(in *input) {
		if in.is(unstable.String, "one of "+alternatives(list)) && in.oneOf(in.node, list...) {
			*into = W(in.text)
		}
	}
}

// oneOf checks that a string is one of a set.
func (in *input) oneOf(v *node, words ...string) bool {
	ok := slices.Contains(words, v.text)
	if !ok {
		in.src.addError(v.at, didYouMean(v.text, words), "%q is not one of %s", v.text, alternatives(words))
	}
	return ok
}

// list reads a list of strings.
func (in *input) list(read func(v *node)) {
	if !in.is(unstable.Array, "a list") {
		return
	}
	for _, v := range in.items {
		if v.kind != unstable.String {
			in.mustBe(v, "a list of texts in quotes")
			continue
		}
		read(v)
	}
}

// number makes the reader of a number within bounds.
func number[N int | float64](into *N, least, most N) func(*input) {
	return func(in *input) {
		n, err := strconv.ParseFloat(in.text, 64)
		_, isWhole := any(least).(int)
		switch {
		case in.kind == unstable.Integer:
			var whole int64
			whole, err = strconv.ParseInt(in.text, 0, 64) // as 1_000 and 0x1F
			n = float64(whole)
		case in.kind != unstable.Float || isWhole:
			in.mustBe(in.node, "a number")
			return
		}
		if err != nil || !(n >= float64(least) && n <= float64(most)) {
			in.fail(in.node, "%q must be a number from %s to %s, not %s", in.key, decimal(float64(least)), decimal(float64(most)), in.text)
			return
		}
		*into = N(n)
	}
}

// Period is a duration that is written as "30s" in JSON, too.
type Period time.Duration

// MarshalText implements encoding.TextMarshaler.
func (p Period) MarshalText() ([]byte, error) { return []byte(time.Duration(p).String()), nil }

// Words is the period in words, such as "24 h".
func (p Period) Words() string {
	if d := time.Duration(p); d%time.Hour != 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h", time.Duration(p)/time.Hour)
}

// period makes the reader of a time, such as "30s", that is not shorter than least.
func period[P Period | time.Duration](into *P, least time.Duration) func(*input) {
	return func(in *input) {
		if !in.isLine() {
			return
		}
		d, err := time.ParseDuration(in.text)
		switch {
		case err != nil || d <= 0:
			in.fail(in.node, "%q is not a time such as \"30s\" or \"2m\"", in.text)
		case d < least:
			in.fail(in.node, "%q is too short: the least is %s", in.text, Period(least).Words())
		default:
			*into = P(d)
		}
	}
}

// block makes the reader of text of one or more lines, or of none.
func block(into *string) func(*input) {
	return func(in *input) {
		if in.is(unstable.String, "text in quotes") {
			*into = strings.TrimSpace(strings.ReplaceAll(in.text, "\r\n", "\n"))
		}
	}
}

// shellText makes the reader of lines of shell text.
func shellText(into *string) func(*input) {
	return func(in *input) {
		var lines string
		block(&lines)(in)
		if in.kind == unstable.String && in.isPrintable(in.node, lines, "\n\t", "lines of text") {
			*into = lines
		}
	}
}

// isScalar checks that the value is a line of text or a number.
func (in *input) isScalar() bool {
	switch in.kind {
	case unstable.Integer, unstable.Float:
		return true
	case unstable.String:
		return in.line(in.node)
	}
	in.mustBe(in.node, "text in quotes or a number")
	return false
}

// table makes the reader of a table with keys of its own.
func table(fields []field) func(*input) {
	return func(in *input) {
		if in.is(unstable.Table, "a table") {
			in.src.readTable(in.node, fields)
		}
	}
}

// named makes the reader of [kind.NAME] for every name into a list. begin is what a table has
// before it is read; check, which may be nil, reports what does not go together in it.
func named[T any, P interface {
	*T
	fields() []field
}](into *[]T, begin func(name string) T, check func(P, *input)) func(*input) {
	return func(in *input) {
		hint := fmt.Sprintf("write: [%s.NAME]", in.key)
		if in.kind != unstable.Table {
			in.src.addError(in.at, hint, "%q must be a section, not %s", in.key, kindName(in.kind))
			return
		}
		for _, n := range in.items {
			switch {
			case n.kind != unstable.Table:
				in.src.addError(n.keyAt, hint, "[%s] needs a name: %q belongs in [%s.NAME]", in.key, n.key, in.key)
			case !validName.MatchString(n.key):
				in.src.addError(n.keyAt, "use letters, digits, '.', '_' and '-', and begin with a letter or digit",
					"%q is not a valid %s name", n.key, in.key)
			default:
				v := begin(n.key)
				in.src.readTable(n, P(&v).fields())
				if check != nil {
					check(&v, &input{n, in.src, ""})
				}
				*into = append(*into, v)
			}
		}
	}
}

// kindName is what the user calls a value's type.
func kindName(kind unstable.Kind) string {
	names := map[unstable.Kind]string{
		unstable.String: "text", unstable.Bool: "true or false", unstable.Integer: "a number", unstable.Float: "a number with a decimal point",
		unstable.Array: "a list", unstable.Table: "a section",
	}
	return cmp.Or(names[kind], "a date or time")
}

// alternatives joins words for a sentence: "a", "b" or "c".
func alternatives(words []string) string { return orList(each(words, strconv.Quote)) }

// orList joins words for a sentence: a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// didYouMean is the hint with the nearest of the words, if one is near.
func didYouMean(word string, words []string) string {
	if near := suggest.Nearest(word, words); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", near[0])
	}
	return ""
}
