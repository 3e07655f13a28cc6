package api

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRemoteText bounds what is kept of a text, in bytes. Nobody reads more of it in a
// message.
const maxRemoteText = 2000

// RemoteText is text that a server, a remote program or a log wrote. It holds nothing
// that could steer a terminal or change how the text around it reads: what comes in is
// sanitised once, when the value is made, and the original is not kept. So it is safe
// with every verb, in logs and in JSON.
type RemoteText struct{ text string }

// NewRemoteText sanitises text, drops the white space around it, and shortens it where
// it is very long.
func NewRemoteText(text string) RemoteText {
	// Removing sequences makes a text shorter: no more than this can count.
	const enough = 16 * maxRemoteText
	if len(text) > enough {
		text = text[:enough]
	}
	text = strings.TrimSpace(Sanitize(text))
	if len(text) > maxRemoteText {
		text = strings.ToValidUTF8(text[:maxRemoteText], "") + "…"
	}
	return RemoteText{text}
}

// String implements fmt.Stringer.
func (t RemoteText) String() string { return t.text }

// IsZero reports whether nothing is left to show.
func (t RemoteText) IsZero() bool { return t.text == "" }

// FirstLine is the text up to the end of its first line, and no longer than most bytes.
func (t RemoteText) FirstLine(most int) RemoteText {
	line, _, _ := strings.Cut(t.text, "\n")
	line = strings.TrimSpace(line)
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return RemoteText{line}
}

// GoString implements fmt.GoStringer.
func (t RemoteText) GoString() string { return t.text }

// MarshalText implements encoding.TextMarshaler, for JSON and for logs.
func (t RemoteText) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// RemoteError is err with a text that is safe to show, for errors that carry words of a
// remote side, such as those of an SSH library. errors.Is and errors.As see through it.
func RemoteError(err error) error {
	if err == nil {
		return nil
	}
	return &remoteError{NewRemoteText(err.Error()), err}
}

type remoteError struct {
	text RemoteText
	err  error
}

func (e *remoteError) Error() string { return e.text.String() }
func (e *remoteError) Unwrap() error { return e.err }

// GoString implements fmt.GoStringer: %#v would print the cause too.
func (e *remoteError) GoString() string { return e.text.String() }

// Sanitize removes from text what a terminal would obey instead of show: escape
// sequences, from their start to their end (ECMA-48), and control characters. It also
// removes invisible format characters, such as those that turn the direction of writing
// around, which make a text read differently from what it says. Line ends and tabs stay,
// and bytes that are not UTF-8 become a question mark.
func Sanitize(text string) string {
	if isPlain(text) {
		return text
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\r\n", "\n")
	return visible(escapes.ReplaceAllString(text, ""), "\n\t")
}

// visible removes control and format characters but those to keep.
func visible(text, keep string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(keep, r) {
			return r
		}
		if r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp) {
			return '\n'
		}
		if unicode.IsControl(r) || isHidden(r) {
			return -1
		}
		return r
	}, text)
}

const (
	// A C1 control such as \x{9b} is ESC and a letter in one.
	stringStart   = `\x1b[ -/]*[\]PX^_]|[\x{9d}\x{90}\x{98}\x{9e}\x{9f}]`
	stringText    = `(?:[^\a\n\r\x1b\x{9c}]|\x1b[^\\\a\n\r])*`
	sequenceStart = `\x1b[ -/]*\[|\x{9b}`
)

// escapes matches escape sequences (ECMA-48): strings, up to BEL or ST, where one without an end
// ends with its line; control sequences, of which one that is broken off ends there; all others.
var escapes = regexp.MustCompile(`(?:` + stringStart + `)` + stringText + `(?:\a|\x1b\\|\x{9c})?` +
	`|(?:` + sequenceStart + `)[ -?]*[@-~]?|\x1b[ -/]*[0-~]?|[\x{80}-\x{9f}]`)

// isPlain reports whether text has nothing but printable ASCII, line ends and tabs.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f })
}

// isHidden reports whether r is a format character. The two joiners stay: some scripts
// and emoji cannot be written without them.
func isHidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.Is(unicode.Cf, r) && r != nonJoiner && r != joiner
}

// Sanitizer is Sanitize for text that comes in pieces, such as a job's log. It keeps colours, and
// the carriage returns of progress bars. A sequence or a letter may be split over several writes.
type Sanitizer struct {
	out      io.Writer
	rest     string // what may continue in the next write
	coloured bool   // the terminal was left in a colour
}

// NewSanitizer returns a Sanitizer that writes to out.
func NewSanitizer(out io.Writer) *Sanitizer { return &Sanitizer{out: out} }

// longestColour bounds the sequences that are kept.
const longestColour = 64

var (
	unfinished = regexp.MustCompile(`(?:(?:` + stringStart + `)` + stringText + `\x1b?|(?:` + sequenceStart + `)[ -?]*|\x1b[ -/]*)$`)
	colour     = regexp.MustCompile(`^(?:\x1b\[|\x{9b})([0-;]*)m$`)
)

// Write implements io.Writer.
func (s *Sanitizer) Write(p []byte) (int, error) {
	text := s.rest + string(p)
	end := len(text)
	if at := unfinished.FindStringIndex(text); at != nil {
		end = at[0]
	}
	end -= len(partOfRune(text[:end]))
	text, s.rest = text[:end], text[end:]
	if n := len(s.rest) - 1; n > longestColour { // none that is kept is so long
		s.rest = s.rest[:longestColour] + s.rest[n:]
	}
	text = escapes.ReplaceAllStringFunc(strings.ToValidUTF8(text, "?"), s.keepColour)
	if _, err := io.WriteString(s.out, visible(text, "\n\t\r\x1b")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// partOfRune is the beginning of a letter at the end of a text.
func partOfRune(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			return tail
		}
	}
	return ""
}

// keepColour is a control sequence if it is a colour.
func (s *Sanitizer) keepColour(sequence string) string {
	found := colour.FindStringSubmatch(sequence)
	if found == nil || len(sequence) > longestColour {
		return ""
	}
	s.coloured = found[1] != "" && found[1] != "0"
	return "\x1b[" + found[1] + "m"
}

// ResetColour leaves the terminal in its own colour.
func (s *Sanitizer) ResetColour() {
	if s.coloured {
		_, _ = io.WriteString(s.out, "\x1b[0m")
	}
}

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
