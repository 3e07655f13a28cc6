package logs

import (
	"regexp"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// longestLine is in bytes; a longer line is broken where what was read ends.
const longestLine = 16 << 10

// liner makes lines of what a job writes: safe to show, with colours as data.
type liner struct {
	sanitizer *api.Sanitizer
	rest      strings.Builder // the line that has not ended
	style     style           // at its beginning
}

func newLiner() *liner {
	l := new(liner)
	l.sanitizer = api.NewSanitizer(&l.rest)
	return l
}

// add takes what the job wrote next, and returns the lines that it ends. The last one may have
// not ended: then the next ones begin with that line again.
func (l *liner) add(data []byte) (lines []api.LogLine, open bool) {
	_, _ = l.sanitizer.Write(data)
	text := l.rest.String()
	l.rest.Reset()
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole && len(line) < longestLine {
			break
		}
		line, text = l.overwritten(line), rest
		lines = append(lines, l.style.spans(line))
	}
	returned := strings.HasSuffix(text, "\r")
	text = l.overwritten(text)
	if text != "" {
		at := l.style
		lines = append(lines, at.spans(text))
	}
	l.rest.WriteString(text)
	if returned { // what follows is written over it
		l.rest.WriteByte('\r')
	}
	return lines, text != ""
}

// overwritten is what a terminal shows of a line that a program wrote over and over: what is behind
// the last carriage return. The colours until there are those at its beginning.
func (l *liner) overwritten(line string) string {
	line = strings.TrimRight(line, "\r")
	at := strings.LastIndexByte(line, '\r') + 1
	l.style.spans(line[:at])
	return line[at:]
}

// sgr matches a colour, as a Sanitizer leaves it.
var sgr = regexp.MustCompile(`\x1b\[([0-;]*)m`)

// style is how a terminal writes.
type style struct {
	bold   bool
	colour string
}

func (s style) String() string {
	if s.bold {
		return strings.TrimSpace("bold " + s.colour)
	}
	return s.colour
}

// spans are the parts of a line. The style is then the one behind it.
func (s *style) spans(line string) api.LogLine {
	spans := api.LogLine{}
	add := func(text string) {
		if text != "" {
			spans = append(spans, api.LogSpan{Text: text, Style: s.String()})
		}
	}
	from := 0
	for _, at := range sgr.FindAllStringSubmatchIndex(line, -1) {
		add(line[from:at[0]])
		s.apply(line[at[2]:at[3]])
		from = at[1]
	}
	add(line[from:])
	return spans
}

// colours are those of SGR 30 to 37. Black and white could not be read on every background.
var colours = [8]string{"", "red", "green", "yellow", "blue", "magenta", "cyan", ""}

// apply follows a colour sequence (ECMA-48, SGR).
func (s *style) apply(parameters string) {
	for text := range strings.SplitSeq(strings.ReplaceAll(parameters, ":", ";"), ";") {
		code, _ := strconv.Atoi(text) // none is 0
		switch code {
		case 0:
			*s = style{}
		case 1, 22:
			s.bold = code == 1
		case 38, 48: // one of 256 or of 16 million: as without a colour
			return
		case 39:
			s.colour = ""
		}
		if n := code % 10; n < len(colours) && (code/10 == 3 || code/10 == 9) {
			s.colour = colours[n]
		}
	}
}
