package term

import (
	"io"
	"os"
)

// NewOutput returns a stream that calls failed when a write to it fails, such as on a full disk:
// no caller has to look at the error of each write.
func NewOutput(w io.Writer, failed func(error)) io.Writer {
	if f, ok := w.(*os.File); ok {
		return &output{f, failed}
	}
	return w // memory, which does not fail
}

// output is still a file: it may be a terminal. ReadFrom stays that of the file, which is faster
// where a stream is copied; the error of that copy is its caller's.
type output struct {
	*os.File
	failed func(error)
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if err != nil {
		o.failed(err)
	}
	return n, err
}

func (o *output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }
