package api

import (
	"regexp"
	"strings"
)

// secretParam matches the query parameters that carry a server's token.
var secretParam = regexp.MustCompile(`(?i)\b((?:\w*_)?token|tkn|secret|password|_xsrf)=([^\s&"'<>\\]+)`)

// secretEnd are the characters that end such a value.
const secretEnd = " \t\n\f\r&\"'<>\\" //nolint:gosec // characters, and no secret

// Redact replaces every known secret, and every value that looks like a token in
// a URL, by three dots. All causes, events and log excerpts pass through it.
func Redact(text string, known ...Secret) string {
	for _, s := range known {
		if !s.IsZero() {
			text = strings.ReplaceAll(text, s.text, mask)
		}
	}
	return secretParam.ReplaceAllString(text, "${1}="+mask)
}
