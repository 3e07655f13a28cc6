package configs

import (
	"bytes"
	"errors"
	"regexp"

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
