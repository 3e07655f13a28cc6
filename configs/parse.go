package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

var (
	// expressionStart matches a line that begins a table or a key, where reading can continue
	// after a syntax error.
	expressionStart = regexp.MustCompile(`(?m)^[ \t]*(\[\[?[^\[\]\n]+\]\]?[ \t]*(#.*)?\r?$|[A-Za-z0-9_."'-]+[ \t]*=|[A-Za-z0-9_-]+:)`)

	// blank matches what may stand between two expressions.
	blank = regexp.MustCompile(`^(?:[ \t\r\n]|#[^\n]*)*`)
)

// parser turns TOML into a tree of nodes. It continues after a syntax error, so that a
// user sees all problems of a file at once.
type parser struct {
	src  *source
	toml unstable.Parser
	base int // where the text given to toml begins
	read int // up to where lines have been read

	root    *node
	current *node // nil below a header that could not be read
}

func parseTree(src *source) *node {
	root := &node{kind: unstable.Table, byKey: map[string]*node{}, origin: header}
	p := &parser{src: src, root: root, current: root}
	for more := true; more; {
		p.toml.Reset(src.data[p.base:])
		for p.toml.NextExpression() {
			p.expression(p.toml.Expression())
		}
		more = p.recover()
	}
	return root
}

// recover reports the syntax error, if any, that ended the reading, and finds the line to
// continue with.
func (p *parser) recover() (more bool) {
	failed, ok := errors.AsType[*unstable.ParserError](p.toml.Error())
	if !ok {
		return false
	}
	data := p.src.data
	// A highlight is a slice of the text: its capacity gives its place.
	start := cap(data) - cap(failed.Highlight)
	begin := p.read + len(blank.Find(data[p.read:]))
	begin = max(0, min(begin, start, len(data)-1)) // a comment can be at fault too
	explainSyntax(p.src, begin, span{start, start + len(failed.Highlight)}, failed.Message)

	if data[begin] == '[' {
		p.current = nil
	} else if p.current != nil {
		p.current.damaged = true
	}
	end := p.src.endOfLine(begin)
	next := expressionStart.FindIndex(data[end:])
	if next == nil || p.src.full() {
		return false
	}
	p.base = end + next[0]
	p.read = p.base
	return true
}

func (p *parser) span(r unstable.Range) span {
	start := p.base + int(r.Offset)
	return span{start, start + int(r.Length)}
}

// expression adds one table header or one key with its value to the tree.
func (p *parser) expression(n *unstable.Node) {
	key := p.key(n)
	end := whole(key).end
	switch n.Kind {
	case unstable.Table:
		if p.current = p.open(p.root, key, header); p.current != nil {
			p.current.at = whole(key)
		}
	case unstable.ArrayTable:
		p.current = nil
		p.src.addError(whole(key), "write ["+keyText(key)+"] with single brackets",
			"[[%s]] is not valid: the config has no lists of sections", keyText(key))
	case unstable.KeyValue:
		end = p.span(n.Raw).end
		if p.current != nil {
			p.keyValue(p.current, n)
		}
	}
	p.read = p.src.endOfLine(end)
}

func (p *parser) key(n *unstable.Node) []keyPart {
	var key []keyPart
	for it := n.Key(); it.Next(); {
		key = append(key, keyPart{string(it.Node().Data), p.span(it.Node().Raw)})
	}
	return key
}

func keyText(key []keyPart) string {
	return dottedKey(each(key, func(part keyPart) string { return part.text })...)
}

// open returns what key stands for below t: a section, which [key] may open, or a key that
// has no value yet. It reports what may not be written again, and returns nil.
func (p *parser) open(t *node, key []keyPart, by origin) *node {
	between := implied
	if by == valued {
		between = dotted
	}
	for i, part := range key {
		last := i == len(key)-1
		old := t.byKey[part.text]
		switch {
		case old == nil && last:
			t = t.add(part, by)
		case old == nil:
			t = t.add(part, between)
		case last && by == header && old.origin == implied:
			t = old
			t.origin = header
		case last && by == header && old.origin != valued:
			p.src.addError(whole(key), "", "duplicate section %s, first on line %d", old.title(), p.src.lineNumber(old.at))
			return nil
		case last, old.origin == valued, by == valued && old.origin != dotted:
			p.src.addError(part.at, "", "duplicate key %q, first on line %d", keyText(key[:i+1]), p.src.lineNumber(old.keyAt))
			return nil
		default:
			t = old
		}
	}
	return t
}

// keyValue adds a key, possibly a dotted one, and its value to t.
func (p *parser) keyValue(t *node, n *unstable.Node) {
	into := p.open(t, p.key(n), valued)
	if into == nil {
		return
	}
	// Lists carry no place of their own: a value begins after the equals sign and
	// ends with the whole expression.
	at := span{into.keyAt.end, p.span(n.Raw).end}
	_, after, _ := bytes.Cut(p.src.data[at.start:at.end], []byte("="))
	at.start = at.end - len(bytes.TrimLeft(after, " \t"))
	p.value(into, n.Value(), at)
}

// value reads a value; at is its place, if it carries none.
func (p *parser) value(into *node, n *unstable.Node, at span) {
	into.kind, into.at = n.Kind, at
	switch n.Kind {
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			item := &node{parent: into.parent, key: into.key, origin: valued}
			p.value(item, it.Node(), at)
			into.items = append(into.items, item)
		}
	case unstable.InlineTable:
		into.kind, into.byKey = unstable.Table, map[string]*node{}
		for it := n.Children(); it.Next(); {
			p.keyValue(into, it.Node())
		}
	default:
		into.text, into.at = string(n.Data), p.span(n.Raw)
	}
}

// node is a key with its value, or an item of a list. We keep our own tree, with the keys
// of a table in the order of the file, since decoding into structs loses the places.
type node struct {
	parent *node // the table that it is in; nil for the root
	key    string
	keyAt  span
	kind   unstable.Kind // Table, Array or a scalar's
	text   string        // of a scalar
	at     span          // the place of the value; of a section, that of its name
	items  []*node       // of an Array or a Table
	byKey  map[string]*node
	origin origin
	// damaged says that a line of the table could not be read, so that what seems
	// to be missing from it may be there.
	damaged bool
}

// origin is how a key came to be; TOML lets only some tables be written to again.
type origin int

const (
	implied origin = iota // by [a.b], which makes a
	header                // by [a] itself
	dotted                // by a.b = 1, which makes a
	valued                // by a = …, which may be { … }
)

// title is the table as its header would be written.
func (n *node) title() string {
	var path []string
	for ; n.parent != nil; n = n.parent {
		path = append(path, n.key)
	}
	slices.Reverse(path)
	return "[" + dottedKey(path...) + "]"
}

// where says which table a key is in, if not at the top of the file.
func (n *node) where() string {
	if n.parent.parent == nil {
		return ""
	}
	return " in " + n.parent.title()
}

// get is a key of the table; one without a place if there is none.
func (n *node) get(key string) *node { return cmp.Or(n.byKey[key], &node{}) }

// complete reports whether the whole table was read, so that absent keys are missing.
func (n *node) complete() bool { return !n.damaged && n.origin != implied }

// add adds a key, as a table without entries.
func (n *node) add(part keyPart, from origin) *node {
	sub := &node{parent: n, key: part.text, keyAt: part.at, kind: unstable.Table, at: part.at, byKey: map[string]*node{}, origin: from}
	n.items = append(n.items, sub)
	n.byKey[part.text] = sub
	return sub
}

// keyPart is one part of a dotted key.
type keyPart struct {
	text string
	at   span
}

// whole is the place of a dotted key from its first part to its last.
func whole(key []keyPart) span { return span{key[0].at.start, key[len(key)-1].at.end} }

// dottedKey joins the parts of a key, quoting those that need it.
func dottedKey(parts ...string) string {
	return strings.Join(each(parts, func(part string) string {
		if bareKey.MatchString(part) {
			return part
		}
		return strconv.Quote(part)
	}), ".")
}

// bareKey matches the keys that TOML takes without quotes.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// explainSyntax reports a syntax error in the expression that begins at begin, in clearer
// words than the parser's if there are any.
func explainSyntax(src *source, begin int, at span, message string) {
	at.start = min(at.start, len(src.data))
	at.end = max(at.start, min(at.end, len(src.data)))
	next, _ := utf8.DecodeRune(src.data[at.start:])

	switch {
	case strings.Contains(message, "incomplete"), strings.Contains(message, "not terminated by"):
		// The parser reports the end of the file; the cause is where it was opened.
		_, line := src.line(begin)
		src.addError(span{begin, line.end}, "", "the bracket or quote opened here is never closed")
	case strings.Contains(message, "cannot have new lines"), strings.HasPrefix(message, "unterminated"):
		src.addError(at, "add the closing quote on the same line", "the text has no closing quote")
	case strings.HasPrefix(message, "invalid escape"):
		src.addError(at, `use single quotes to keep backslashes: '\d+'`, "%s is not a valid escape sequence", src.text(at))
	case strings.HasPrefix(message, "expected value, not end"):
		src.addError(span{at.end, at.end}, "", "the value is missing")
	case startsValue(message):
		explainValue(src, at, next)
	case strings.HasSuffix(message, "to close table name"),
		strings.HasPrefix(message, "invalid character at start of key") && src.data[begin] == '[':
		explainHeader(src, begin, at)
	case strings.Contains(message, "after key"):
		src.addError(at, `write: key = "value"`, "expected = after the key")
	case strings.HasPrefix(message, "expected newline"):
		src.addError(at, "", "unexpected %q: only a comment may follow on this line", next)
	default:
		hint := ""
		if first := src.lineNumber(span{begin, begin}); first != src.lineNumber(at) {
			hint = fmt.Sprintf("this value begins on line %d", first)
		}
		src.addError(at, hint, "%s", message)
	}
}

// explainHeader reports a section whose name or bracket is wrong; usually there is a space in
// the name, or no name after the dot.
func explainHeader(src *source, begin int, at span) {
	rest, closed := "", false
	if _, line := src.line(begin); at.start < line.end {
		rest, _, closed = strings.Cut(src.text(span{at.start, line.end}), "]")
	}
	switch {
	case !closed:
		src.addError(at, "add ] after the name", "the section has no closing bracket")
	case rest == "", rest[0] == '.':
		src.addError(at, src.sections(), "a name is missing in the section")
	default:
		src.addError(at, "use letters, digits, - and _ in a name, and no spaces", "unexpected %q in the name of a section", strings.TrimSpace(rest))
	}
}

// startsValue reports whether the parser failed at the start of a value.
func startsValue(message string) bool {
	return strings.HasSuffix(message, "at start of value") || strings.HasPrefix(message, "expected keyword") ||
		message == "strings must be quoted" || message == `expected "inf"` || message == `expected "nan"`
}

// explainValue reports an invalid value; usually quotes are missing.
func explainValue(src *source, at span, next rune) {
	_, line := src.line(at.start)
	for at.start > line.start && !strings.ContainsRune("=[{, \t", rune(src.data[at.start-1])) {
		at.start-- // over the digits of 2node
	}
	rest, _, _ := strings.Cut(src.text(span{min(at.start, line.end), line.end}), "#")
	rest = strings.TrimRight(rest, " \t")
	word := strings.Trim(rest, `"',[]{} `)
	if rest != "" {
		at.end = at.start + len(rest)
	}
	switch {
	case rest == "":
		src.addError(span{at.start, at.start}, "", "the value is missing")
	case strings.EqualFold(rest, "true"), strings.EqualFold(rest, "false"):
		src.addError(at, "write "+strings.ToLower(rest), "true and false must be lowercase")
	case strings.ContainsRune("“”„‘’«»`´", next):
		src.addError(at, `write "…" or '…'`, "%q is not a straight quote", next)
	default:
		src.addError(at, fmt.Sprintf("text needs quotes: %q", word), "%q is neither quoted text, a number, true nor false", word)
	}
}
