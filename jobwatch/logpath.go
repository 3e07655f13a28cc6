package jobwatch

import (
	"strings"

	"tunctl/internal/api"
)

// ExpandLog fills {id}, {name}, {user} and {node} in a log pattern of the config
// file. What is filled in stands for itself, also where it has a glob's characters;
// a placeholder whose value is not known yet becomes "*".
func ExpandLog(pattern string, job api.Job, user string) string {
	return strings.NewReplacer(
		"{id}", globValue(job.ID),
		"{name}", globValue(job.Name),
		"{user}", globValue(user),
		"{node}", globValue(job.Node),
	).Replace(pattern)
}

// globSpecial are the characters that mean something in a pattern.
const globSpecial = `*?[]\`

func globValue(s string) string {
	if s == "" {
		return "*"
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(globSpecial, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// globWord turns a pattern into a word of sh in which only *, ? and [] are special.
// A backslash takes the meaning from the character after it.
func globWord(pattern string) string {
	word := ""
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		word, pattern = `"$HOME"/`, rest
	}
	var b, literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			b.WriteString(quote(literal.String()))
			literal.Reset()
		}
	}
	escaped := false
	for _, c := range []byte(pattern) {
		switch {
		case escaped:
			literal.WriteByte(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '*' || c == '?' || c == '[' || c == ']':
			flush()
			b.WriteByte(c)
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	return word + b.String()
}
