package api

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestALineEndsAtItsBound(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("short\n"+strings.Repeat("x", 100)+"\nlast"), 16)
	for _, want := range []string{"short\n", strings.Repeat("x", 100) + "\n"} {
		if line, err := ReadLine(in, 101); line != want || err != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
	if line, err := ReadLine(in, 101); line != "last" || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", line, err)
	}
	endless := &counted{}
	if _, err := ReadLine(bufio.NewReaderSize(endless, 16), 1000); !errors.Is(err, ErrLongLine) || endless.n > 1100 {
		t.Errorf("%d bytes were read: %v", endless.n, err)
	}
}

// counted is a line without an end.
type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	c.n += len(p)
	return len(p), nil
}
