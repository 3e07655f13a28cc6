package configs

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

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
