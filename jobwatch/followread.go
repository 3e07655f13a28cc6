package jobwatch

import (
	"bytes"
	"context"
)

const (
	bite     = 512 << 10 // the most that is read of a file at once
	backlog  = 4 << 20   // more than this unread, and the middle is left out
	tailSize = 64        // how many bytes tell whether a file is still the same
)

// read reads what is new in every file.
func (f *Follower) read(ctx context.Context, sink func(Chunk)) error {
	asks := make([]ask, len(f.sources))
	for i, s := range f.sources {
		asks[i] = ask{pattern: s.pattern, pos: s.pos, max: bite, newer: f.newer}
	}
	got, err := readFiles(ctx, f.sh, asks)
	if err != nil {
		return err
	}
	for i, g := range got {
		named := func(c Chunk) {
			c.Source = i
			sink(c)
		}
		if err := f.take(ctx, named, f.sources[i], g); err != nil {
			return err
		}
	}
	return nil
}

// take passes on what was read of one file, and reads on until it is up to date.
func (f *Follower) take(ctx context.Context, sink func(Chunk), s *source, g got) (err error) {
	for g.found {
		f.appeared()
		chunk := s.fresh(g)
		if chunk.Reset && g.start > 0 {
			// Other bytes stand where we stopped: another file under the same name.
			if g, err = f.again(ctx, s, Position{}); err != nil {
				return err
			}
			continue
		}
		end := chunk.Offset + int64(len(chunk.Data))
		if g.size-end > backlog {
			return f.leap(ctx, sink, s, chunk, g.size)
		}
		if chunk.Reset || len(chunk.Data) > 0 || !s.seen {
			sink(chunk)
		}
		s.seen = true
		f.moved(s, advance(s.pos, chunk))
		if g.size <= end || len(chunk.Data) == 0 {
			return nil
		}
		if g, err = f.again(ctx, s, s.pos); err != nil {
			return err
		}
	}
	return nil
}

// fresh is the part of g that was not read before: all of it, as a reset, when the
// file is not the one that was read before.
func (s *source) fresh(g got) Chunk {
	all := Chunk{Path: g.path, Offset: g.start, Data: g.data, Reset: s.pos.Path != ""}
	if s.pos.Path == "" || g.path != s.pos.Path || g.start == 0 && s.pos.Offset > int64(len(s.pos.Tail)) {
		return all
	}
	rest, same := bytes.CutPrefix(g.data, s.pos.Tail)
	if !same {
		return all
	}
	return Chunk{Path: g.path, Offset: s.pos.Offset, Data: rest}
}

// advance is the position after c.
func advance(pos Position, c Chunk) Position {
	tail := c.Data
	if !c.Reset && pos.Path == c.Path && pos.Offset == c.Offset {
		tail = append(bytes.Clone(pos.Tail), c.Data...)
	}
	if len(tail) > tailSize {
		tail = tail[len(tail)-tailSize:]
	}
	return Position{Path: c.Path, Offset: c.Offset + int64(len(c.Data)), Tail: bytes.Clone(tail)}
}

// again reads more of the file that s is at.
func (f *Follower) again(ctx context.Context, s *source, from Position) (got, error) {
	list, err := readFiles(ctx, f.sh, []ask{{pattern: s.pattern, pos: from, max: bite, newer: f.newer}})
	if err != nil {
		return got{}, err
	}
	return list[0], nil
}

// leap passes on the beginning of a long unread stretch and its end, and searches
// the middle if both together tell too little.
func (f *Follower) leap(ctx context.Context, sink func(Chunk), s *source, head Chunk, size int64) error {
	if cut := bytes.LastIndexByte(head.Data, '\n'); cut >= 0 {
		head.Data = head.Data[:cut+1]
	}
	end, err := readFiles(ctx, f.sh, []ask{{pattern: s.pattern, pos: Position{Path: head.Path, Offset: size - bite}, max: bite, newer: f.newer}})
	if err != nil {
		return err
	}
	tail := end[0]
	if !tail.found || tail.path != head.Path || tail.start != size-bite {
		// It changed under our hands: the next round sees what it is now.
		return nil
	}
	sink(head)
	s.seen = true
	rest := Chunk{Path: tail.path, Offset: tail.start, Data: tail.data}
	if cut := bytes.IndexByte(rest.Data, '\n'); cut >= 0 {
		rest.Offset, rest.Data = rest.Offset+int64(cut)+1, rest.Data[cut+1:]
	}
	sink(rest)
	f.moved(s, advance(Position{}, rest))
	if f.enough == nil || f.enough() {
		return nil
	}
	from := head.Offset + int64(len(head.Data))
	return searchFile(ctx, f.sh, head.Path, from, rest.Offset-from, sink)
}
