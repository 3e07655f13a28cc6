package jobwatch

import (
	"bytes"
	"context"
	"fmt"

	"tunctl/internal/api"
)

// ReadLog reads a log from its beginning to its present end, a bite at a time. The
// path may be a glob, as in FollowOptions.
func ReadLog(ctx context.Context, r Runner, path string, sink func(Chunk)) error {
	sh := readShell(r)
	var pos Position
	for {
		file, err := readOne(ctx, sh, ask{pattern: path, pos: pos, max: bite})
		if err != nil {
			return err
		}
		if len(file.data) == 0 || pos.Path != "" && (file.path != pos.Path || file.start != pos.Offset) {
			return nil
		}
		chunk := Chunk{Path: file.path, Offset: file.start, Data: file.data}
		sink(chunk)
		pos = Position{Path: chunk.Path, Offset: chunk.Offset + int64(len(chunk.Data))}
		if pos.Offset >= file.size {
			return nil
		}
	}
}

// TailLog returns the last lines of a log, as a terminal would show them.
func TailLog(ctx context.Context, r Runner, path string, lines int) ([]byte, error) {
	sh := readShell(r)
	// The path may be a glob: which file it is, and how long, comes first.
	file, err := readOne(ctx, sh, ask{pattern: path})
	if err != nil {
		return nil, err
	}
	from := max(0, file.size-int64(lines)*1024)
	file, err = readOne(ctx, sh, ask{pattern: path, pos: Position{Path: file.path, Offset: from}, max: bite})
	if err != nil {
		return nil, err
	}
	return asShown(lastLines(file.data, lines)), nil
}

// asShown is text without what steers a terminal; of a line that was drawn over and
// over, as a progress bar is, its last state.
func asShown(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		line = line[bytes.LastIndexByte(line, '\r')+1:]
		out = append(out, api.Sanitize(string(line))...)
		if ended {
			out = append(out, '\n')
		}
	}
	return out
}

// ReadFile returns a small file, such as one in which a server says how to reach it.
func ReadFile(ctx context.Context, r Runner, path string) ([]byte, error) {
	file, err := readOne(ctx, readShell(r), ask{pattern: path, max: bite})
	if err != nil {
		return nil, err
	}
	if file.size > bite {
		return nil, fmt.Errorf("file %q is too large: %d bytes", path, file.size)
	}
	return file.data, nil
}

func readShell(r Runner) *shell { return &shell{run: r, limit: DefaultLimits().Command} }

func readOne(ctx context.Context, sh *shell, a ask) (got, error) {
	list, err := readFiles(ctx, sh, []ask{a})
	if err != nil {
		return got{}, err
	}
	if !list[0].found {
		return got{}, &api.Error{Code: api.CodeNotReady, Message: fmt.Sprintf("cannot read %q on the host: no such file, or no permission", a.pattern)}
	}
	return list[0], nil
}

func lastLines(data []byte, n int) []byte {
	end := bytes.TrimRight(data, "\n")
	at := len(end)
	for range n {
		at = bytes.LastIndexByte(end[:at], '\n')
		if at < 0 {
			return data
		}
	}
	return data[at+1:]
}
