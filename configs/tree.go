package configs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// table is a TOML table with its keys in the order of the file, each with its
// place. We keep our own tree, since decoding into structs loses the places.
type table struct {
	parent  *table // nil for the root
	name    string
	at      span // where it is first named
	origin  origin
	entries []*entry
	byKey   map[string]*entry
	// damaged says that a line of the table could not be read, so that what seems
	// to be missing from it may be there.
	damaged bool
}

// origin is how a table came to be; TOML lets only some be written to again.
type origin int

const (
	implied origin = iota // by [a.b], which makes a
	header                // by [a] itself
	dotted                // by a.b = 1, which makes a
	inline                // by a = { … }
)

// entry is one key of a table.
type entry struct {
	key   string
	at    span
	value value
}

// value is what stands right of the equals sign, or a table.
type value struct {
	kind  unstable.Kind // Table, Array or a scalar's
	text  string        // of a scalar
	at    span
	items []value // of an Array
	table *table  // of a Table
}

// keyPart is one part of a dotted key.
type keyPart struct {
	text string
	at   span
}

func newTable(parent *table, name string, at span, from origin) *table {
	return &table{parent: parent, name: name, at: at, origin: from, byKey: make(map[string]*entry)}
}

// title is the table as its header would be written.
func (t *table) title() string {
	var path []string
	for ; t.parent != nil; t = t.parent {
		path = append(path, t.name)
	}
	slices.Reverse(path)
	return "[" + dottedKey(path) + "]"
}

// where says which table a key is in, if not at the top of the file.
func (t *table) where() string {
	if t.parent == nil {
		return ""
	}
	return " in " + t.title()
}

func (t *table) add(key keyPart, v value) *entry {
	e := &entry{key: key.text, at: key.at, value: v}
	t.entries = append(t.entries, e)
	t.byKey[key.text] = e
	return e
}

// addTable adds a table of its own under t.
func (t *table) addTable(key keyPart, from origin) *table {
	sub := newTable(t, key.text, key.at, from)
	t.add(key, value{kind: unstable.Table, at: key.at, table: sub})
	return sub
}

// dottedKey joins the parts of a key, quoting those that need it.
func dottedKey(parts []string) string {
	written := make([]string, len(parts))
	for i, part := range parts {
		written[i] = part
		if !isBare(part) {
			written[i] = strconv.Quote(part)
		}
	}
	return strings.Join(written, ".")
}

// isBare reports whether TOML takes the key without quotes.
func isBare(key string) bool {
	return key != "" && strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
