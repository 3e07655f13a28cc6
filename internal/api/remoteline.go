package api

import (
	"bufio"
	"errors"
)

// ErrLongLine is the error of a line that is longer than it may be.
var ErrLongLine = errors.New("the line is too long")

// ReadLine reads a line with its end, of at most that many bytes. All lines of hosts are
// read by it: whoever writes a line without an end must not fill the memory.
func ReadLine(in *bufio.Reader, most int) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return "", ErrLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), err
		}
	}
}
