package detect

import "math/bits"

// bitset is a set of numbers below 192, of words or of rules.
type bitset [3]uint64

func (b *bitset) add(i int)     { b[i>>6] |= 1 << (i & 63) }
func (b *bitset) del(i int)     { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bitset) empty() bool    { return b == bitset{} }

// meets reports whether the sets have a number in common.
func (b *bitset) meets(c bitset) bool {
	return b[0]&c[0]|b[1]&c[1]|b[2]&c[2] != 0
}

func (b *bitset) join(c bitset) {
	for i, w := range c {
		b[i] |= w
	}
}

// all yields the numbers in the set, in order.
func (b bitset) all(yield func(int) bool) {
	for i, w := range b {
		for ; w != 0; w &= w - 1 {
			if !yield(i<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// lineFilter finds which of a set of words a line contains, in one pass and in any
// case: it is an Aho-Corasick automaton. Almost all lines of a long log contain none,
// and no regular expression is tried on them.
type lineFilter struct {
	next  [][256]uint16 // per state and byte, the next state; with finds where a word ends
	found []bitset      // per state
}

// newLineFilter builds the automaton of words, which are in lower case.
func newLineFilter(words []string) *lineFilter {
	f := &lineFilter{next: make([][256]uint16, 1), found: make([]bitset, 1)}
	for i, w := range words {
		f.insert(i, w)
	}
	f.link()
	for s := range f.next {
		for c, t := range f.next[s] {
			if !f.found[t].empty() {
				f.next[s][c] = t | finds
			}
		}
		copy(f.next[s]['A':'Z'+1], f.next[s]['a':'z'+1])
	}
	return f
}

// insert adds a word to the trie.
func (f *lineFilter) insert(i int, word string) {
	s := uint16(0)
	for _, c := range []byte(word) {
		if f.next[s][c] == 0 {
			f.next[s][c] = uint16(len(f.next))
			f.next = append(f.next, [256]uint16{})
			f.found = append(f.found, bitset{})
		}
		s = f.next[s][c]
	}
	f.found[s].add(i)
}

// link turns the trie into an automaton: where no word continues, the next state is
// that of the longest suffix that begins a word.
func (f *lineFilter) link() {
	fail := make([]uint16, len(f.next))
	var queue []uint16
	for _, s := range f.next[0] {
		if s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		f.found[s].join(f.found[fail[s]])
		for c, t := range f.next[s] {
			if t == 0 {
				f.next[s][c] = f.next[fail[s]][c]
				continue
			}
			fail[t] = f.next[fail[s]][c]
			queue = append(queue, t)
		}
	}
}

// finds marks a state in which a word ends, so that scan reads only one table for most
// bytes.
const finds = 1 << 15

// scan returns the words that line contains.
func (f *lineFilter) scan(line []byte) bitset {
	var hits bitset
	s := uint16(0)
	next := f.next
	for _, c := range line {
		s = next[s&^finds][c]
		if s&finds != 0 {
			hits.join(f.found[s&^finds])
		}
	}
	return hits
}
