package configs

import (
	"bytes"
	"errors"
	"regexp"

	"github.com/pelletier/go-toml/v2/unstable"
)

// expressionStart matches a line that begins a table or a key, where reading can continue
// after a syntax error.
var expressionStart = regexp.MustCompile(`^[ \t]*(\[\[?[^\[\]]+\]\]?[ \t]*(#.*)?$|[A-Za-z0-9_."'-]+[ \t]*=|[A-Za-z0-9_-]+:)`)

// parser turns TOML into a tree of tables. It continues after a syntax error, so that a
// person sees all problems of a file at once.
type parser struct {
	src  *source
	toml unstable.Parser
	base int // where the text given to toml begins
	read int // up to where expressions have been read

	root    *table
	current *table // nil below a header that could not be read
}

func parseTree(src *source) *table {
	p := &parser{src: src, root: newTable(nil, "", span{}, header)}
	p.current = p.root
	p.reset(0)
	for {
		for p.toml.NextExpression() {
			p.expression(p.toml.Expression())
		}
		perr, failed := errors.AsType[*unstable.ParserError](p.toml.Error())
		if !failed {
			return p.root
		}
		next, more := p.recover(perr)
		if !more {
			return p.root
		}
		p.reset(next)
	}
}

func (p *parser) reset(offset int) {
	p.base, p.read = offset, offset
	p.toml.Reset(p.src.data[offset:])
}

// recover reports a syntax error and finds the line to continue with.
func (p *parser) recover(perr *unstable.ParserError) (next int, more bool) {
	// A highlight is a slice of the text: its capacity gives its place.
	start := cap(p.src.data) - cap(perr.Highlight)
	begin := min(p.nextExpression(), start) // a comment can be at fault too
	explainSyntax(p.src, begin, span{start, start + len(perr.Highlight)}, perr.Message)

	if p.src.data[begin] == '[' {
		p.current = nil
	} else if p.current != nil {
		p.current.damaged = true
	}
	if len(p.src.errors) == maxErrors {
		return 0, false
	}
	for number := p.src.line(begin) + 1; number <= len(p.src.lines); number++ {
		line := p.src.lineSpan(number)
		if expressionStart.Match(p.src.data[line.start:line.end]) {
			return line.start, true
		}
	}
	return 0, false
}

// nextExpression is where the expression after those read so far begins.
func (p *parser) nextExpression() int {
	data := p.src.data
	i := p.read
	if i > p.base {
		i = p.endOfLine(i)
	}
	for i < len(data) {
		switch data[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '#':
			i = p.endOfLine(i)
		default:
			return i
		}
	}
	return max(0, len(data)-1)
}

func (p *parser) endOfLine(offset int) int {
	if i := bytes.IndexByte(p.src.data[offset:], '\n'); i >= 0 {
		return offset + i
	}
	return len(p.src.data)
}

func (p *parser) span(r unstable.Range) span {
	start := p.base + int(r.Offset)
	return span{start, start + int(r.Length)}
}

// expression adds one table header or one key with its value to the tree.
func (p *parser) expression(n *unstable.Node) {
	key := p.key(n.Key())
	p.read = key[len(key)-1].at.end
	switch n.Kind {
	case unstable.Table:
		p.current = p.header(key)
	case unstable.ArrayTable:
		p.current = nil
		p.src.addError(whole(key), "write ["+dottedKey(texts(key))+"] with single brackets",
			"[[%s]] is not valid: the config has no lists of sections", dottedKey(texts(key)))
	case unstable.KeyValue:
		p.read = p.span(n.Raw).end
		if p.current != nil {
			p.keyValue(p.current, n)
		}
	}
}

func (p *parser) key(it unstable.Iterator) []keyPart {
	var key []keyPart
	for it.Next() {
		n := it.Node()
		key = append(key, keyPart{text: string(n.Data), at: p.span(n.Raw)})
	}
	return key
}

// header returns the table that [key] opens, or nil when it may not be opened.
func (p *parser) header(key []keyPart) *table {
	t := p.root
	for i, part := range key {
		last := i == len(key)-1
		e, exists := t.byKey[part.text]
		switch {
		case !exists && last:
			t = t.addTable(part, header)
			t.at = whole(key)
		case !exists:
			t = t.addTable(part, implied)
		case e.value.table == nil || e.value.table.origin == inline:
			p.duplicate(part, key[:i+1], e)
			return nil
		case last && e.value.table.origin != implied:
			p.src.addError(whole(key), "", "duplicate section %s, first on line %d",
				e.value.table.title(), p.src.line(e.value.table.at.start))
			return nil
		case last:
			t = e.value.table
			t.origin, t.at = header, whole(key)
		default:
			t = e.value.table
		}
	}
	return t
}

// keyValue adds a key, possibly a dotted one, and its value to t.
func (p *parser) keyValue(t *table, n *unstable.Node) {
	key := p.key(n.Key())
	for i, part := range key[:len(key)-1] {
		e, exists := t.byKey[part.text]
		switch {
		case !exists:
			t = t.addTable(part, dotted)
		case e.value.table == nil || e.value.table.origin != dotted:
			p.duplicate(part, key[:i+1], e)
			return
		default:
			t = e.value.table
		}
	}
	last := key[len(key)-1]
	if e, exists := t.byKey[last.text]; exists {
		p.duplicate(last, key, e)
		return
	}
	p.value(t, t.add(last, value{}), n)
}

func (p *parser) duplicate(part keyPart, key []keyPart, first *entry) {
	p.src.addError(part.at, "", "duplicate key %q, first on line %d",
		dottedKey(texts(key)), p.src.line(first.at.start))
}

// value reads the value of a key-value node into its entry.
func (p *parser) value(t *table, e *entry, n *unstable.Node) {
	// Lists carry no place of their own: a value begins after the equals sign and
	// ends with the whole expression.
	at := span{e.at.end, p.span(n.Raw).end}
	if i := bytes.IndexByte(p.src.data[at.start:at.end], '='); i >= 0 {
		at.start += i + 1
	}
	at.start = at.end - len(bytes.TrimLeft(p.src.data[at.start:at.end], " \t"))
	e.value = p.node(t, e.key, n.Value(), at)
}

// node reads the value of key in t; at is its place, for those that carry none.
func (p *parser) node(t *table, key string, n *unstable.Node, at span) value {
	switch n.Kind {
	case unstable.Array:
		v := value{kind: unstable.Array, at: at}
		for it := n.Children(); it.Next(); {
			v.items = append(v.items, p.node(t, key, it.Node(), at))
		}
		return v
	case unstable.InlineTable:
		sub := newTable(t, key, at, inline)
		for it := n.Children(); it.Next(); {
			p.keyValue(sub, it.Node())
		}
		return value{kind: unstable.Table, at: at, table: sub}
	default:
		return value{kind: n.Kind, text: string(n.Data), at: p.span(n.Raw)}
	}
}

// whole is the place of a dotted key from its first part to its last.
func whole(key []keyPart) span { return span{key[0].at.start, key[len(key)-1].at.end} }

func texts(key []keyPart) []string {
	list := make([]string, len(key))
	for i, part := range key {
		list[i] = part.text
	}
	return list
}
