package term

import (
	"cmp"
	"io"
	"os"
	"strings"
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

// inLocale is a stream whose text has only characters that the locale has: with LC_ALL=C, a
// terminal may show others as garbage.
func inLocale(w io.Writer) io.Writer {
	if f, ok := w.(file); ok && isASCIILocale() {
		return asciiFile{f}
	}
	return w
}

// isASCIILocale reports whether the environment names a locale without UTF-8. Without any,
// a terminal probably has it.
func isASCIILocale() bool {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8")
}

// file is a stream that may be a terminal.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
}

// asciiFile replaces the symbols of tunctl's texts. Other letters, as in names, stay as they
// are.
type asciiFile struct{ file }

func (f asciiFile) Write(p []byte) (int, error) {
	if _, err := toASCII.WriteString(f.file, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw is the stream itself, for the output of another program.
func Raw(w io.Writer) io.Writer {
	if f, ok := w.(asciiFile); ok {
		return Raw(f.file)
	}
	return w
}

// toASCII keeps the width of the text: lines are wrapped before they are written.
var toASCII = strings.NewReplacer(
	"✓", "+", "✗", "x", "…", ".", "•", "*", "·", "-", "→", ">", "▸", ">", "›", ">", "—", "-", "–", "-", "↓", "v", "↑", "^",
	"│", "|", "─", "-", "╭", "+", "╮", "+", "╰", "+", "╯", "+", "▏", "|", "▕", "|", "░", ".", "█", "#",
	"▁", "_", "▂", "_", "▃", "_", "▄", "=", "▅", "=", "▆", "=", "▇", "#", "“", `"`, "”", `"`, "‘", "'", "’", "'",
	"⠋", "*", "⠙", "*", "⠹", "*", "⠸", "*", "⠼", "*", "⠴", "*", "⠦", "*", "⠧", "*", "⠇", "*", "⠏", "*",
)
