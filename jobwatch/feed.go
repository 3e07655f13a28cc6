package jobwatch

import (
	"fmt"

	"tunctl/jobwatch/detect"
)

// Feed returns a function that passes the chunks of a job's logs to d. A chunk that
// does not continue the one before begins a stream of its own, so that no two half
// lines become one.
func Feed(d *detect.Detector) func(Chunk) {
	return (&feed{detector: d, files: map[int]*fedFile{}}).add
}

type feed struct {
	detector *detect.Detector
	files    map[int]*fedFile // by their place among the paths followed
}

// fedFile is one file: its streams, of which the last continues at next.
type fedFile struct {
	streams []*detect.Stream
	next    int64
}

func (f *feed) add(c Chunk) {
	file, known := f.files[c.Source]
	if !known {
		file = &fedFile{}
		f.files[c.Source] = file
	}
	switch {
	case c.Reset: // truncated, or another file now; what the others said stays
		for _, s := range file.streams {
			s.Reset()
		}
		file.streams = []*detect.Stream{f.detector.Stream(c.Path)}
	case len(file.streams) == 0 || c.Offset != file.next:
		name := c.Path
		if c.Offset > 0 {
			name = fmt.Sprintf("%s from byte %d", c.Path, c.Offset)
		}
		file.streams = append(file.streams, f.detector.Stream(name))
	}
	_, _ = file.streams[len(file.streams)-1].Write(c.Data)
	file.next = c.Offset + int64(len(c.Data))
}
