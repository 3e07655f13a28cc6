package configs

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// explainSyntax reports a syntax error in the expression that begins at begin, in clearer
// words than the parser's if there are any.
func explainSyntax(src *source, begin int, at span, message string) {
	at.start = min(at.start, len(src.data))
	at.end = max(at.start, min(at.end, len(src.data)))
	next, _ := utf8.DecodeRune(src.data[at.start:])

	switch {
	case strings.Contains(message, "incomplete"), strings.Contains(message, "not terminated by"):
		// The parser reports the end of the file; the cause is where it was opened.
		_, line := src.line(begin)
		src.addError(span{begin, line.end}, "", "the bracket or quote opened here is never closed")
	case strings.Contains(message, "cannot have new lines"), strings.HasPrefix(message, "unterminated"):
		src.addError(at, "add the closing quote on the same line", "the text has no closing quote")
	case strings.HasPrefix(message, "invalid escape"):
		src.addError(at, `use single quotes to keep backslashes: '\d+'`, "%s is not a valid escape sequence", src.text(at))
	case strings.HasPrefix(message, "expected value, not end"):
		src.addError(span{at.end, at.end}, "", "the value is missing")
	case startsValue(message):
		explainValue(src, at, next)
	case strings.HasSuffix(message, "to close table name"),
		strings.HasPrefix(message, "invalid character at start of key") && src.data[begin] == '[':
		explainHeader(src, begin, at)
	case strings.Contains(message, "after key"):
		src.addError(at, `write: key = "value"`, "expected = after the key")
	case strings.HasPrefix(message, "expected newline"):
		src.addError(at, "", "unexpected %q: only a comment may follow on this line", next)
	default:
		hint := ""
		if first := src.lineNumber(span{begin, begin}); first != src.lineNumber(at) {
			hint = fmt.Sprintf("this value begins on line %d", first)
		}
		src.addError(at, hint, "%s", message)
	}
}

// explainHeader reports a section whose name or bracket is wrong; usually there is a space in
// the name, or no name after the dot.
func explainHeader(src *source, begin int, at span) {
	rest, closed := "", false
	if _, line := src.line(begin); at.start < line.end {
		rest, _, closed = strings.Cut(src.text(span{at.start, line.end}), "]")
	}
	switch {
	case !closed:
		src.addError(at, "add ] after the name", "the section has no closing bracket")
	case rest == "", rest[0] == '.':
		src.addError(at, src.sections(), "a name is missing in the section")
	default:
		src.addError(at, "use letters, digits, - and _ in a name, and no spaces", "unexpected %q in the name of a section", strings.TrimSpace(rest))
	}
}

// startsValue reports whether the parser failed at the start of a value.
func startsValue(message string) bool {
	return strings.HasSuffix(message, "at start of value") || strings.HasPrefix(message, "expected keyword") ||
		message == "strings must be quoted" || message == `expected "inf"` || message == `expected "nan"`
}

// explainValue reports an invalid value; usually quotes are missing.
func explainValue(src *source, at span, next rune) {
	_, line := src.line(at.start)
	for at.start > line.start && !strings.ContainsRune("=[{, \t", rune(src.data[at.start-1])) {
		at.start-- // over the digits of 2node
	}
	rest, _, _ := strings.Cut(src.text(span{min(at.start, line.end), line.end}), "#")
	rest = strings.TrimRight(rest, " \t")
	word := strings.Trim(rest, `"',[]{} `)
	if rest != "" {
		at.end = at.start + len(rest)
	}
	switch {
	case rest == "":
		src.addError(span{at.start, at.start}, "", "the value is missing")
	case strings.EqualFold(rest, "true"), strings.EqualFold(rest, "false"):
		src.addError(at, "write "+strings.ToLower(rest), "true and false must be lowercase")
	case strings.ContainsRune("“”„‘’«»`´", next):
		src.addError(at, `write "…" or '…'`, "%q is not a straight quote", next)
	default:
		src.addError(at, fmt.Sprintf("text needs quotes: %q", word), "%q is neither quoted text, a number, true nor false", word)
	}
}
