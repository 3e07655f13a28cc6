package jobwatch

// needles is a set of up to 128 words found in a line.
type needles [2]uint64

func (n *needles) add(i int)      { n[i>>6] |= 1 << (i & 63) }
func (n needles) has(i int) bool  { return n[i>>6]&(1<<(i&63)) != 0 }
func (n needles) empty() bool     { return n[0]|n[1] == 0 }
func (n *needles) join(m needles) { n[0] |= m[0]; n[1] |= m[1] }

// lineFilter finds which of a set of words stand in a line, in one pass and
// without regard to case: an Aho-Corasick automaton. Almost all lines of a long
// log hold none, and no regular expression ever sees them.
type lineFilter struct {
	next  [][256]uint16
	found []needles // per state
}

// newLineFilter builds the automaton of words, which are in lower case.
func newLineFilter(words []string) *lineFilter {
	f := &lineFilter{next: make([][256]uint16, 1), found: make([]needles, 1)}
	for i, w := range words {
		f.insert(i, w)
	}
	f.link()
	for s := range f.next {
		for c := 'a'; c <= 'z'; c++ {
			f.next[s][c-'a'+'A'] = f.next[s][c]
		}
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
			f.found = append(f.found, needles{})
		}
		s = f.next[s][c]
	}
	f.found[s].add(i)
}

// link turns the trie into an automaton: where a word breaks off, go on with the
// longest end of it that begins a word.
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

// scan returns the words that stand in line.
func (f *lineFilter) scan(line []byte) needles {
	var hits needles
	s := uint16(0)
	next, found := f.next, f.found
	for _, c := range line {
		s = next[s][c]
		if m := &found[s]; m[0]|m[1] != 0 {
			hits.join(*m)
		}
	}
	return hits
}
