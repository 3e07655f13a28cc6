package agent

import (
	"fmt"

	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
)

// feed hands the stretches of a job's logs to a detector. What does not continue the
// stretch before is a stream of its own, so that no two half lines become one.
type feed struct {
	detector *detect.Detector
	files    map[int]*fed // by their place among the paths followed
}

// fed is one file: the streams it was handed to, the last of which goes on at next.
type fed struct {
	streams []*detect.Stream
	next    int64
}

func (f *feed) take(c jobwatch.Chunk) {
	if f.files == nil {
		f.files = map[int]*fed{}
	}
	file, known := f.files[c.Source]
	if !known {
		file = &fed{}
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
