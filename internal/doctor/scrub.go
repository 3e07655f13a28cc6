package doctor

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// Scrubber takes secrets and names out of text that leaves this machine.
type Scrubber struct {
	names []replacement
}

type replacement struct {
	old *regexp.Regexp
	new string
}

// shortest is the length from which a name is looked for also inside of words:
// "al" would be in too many.
const shortest = 4

// NewScrubber knows the names to take out, by what to put in their place.
func NewScrubber(names map[string]string) *Scrubber {
	olds := make([]string, 0, len(names))
	for old := range names {
		if len(old) > 1 {
			olds = append(olds, old)
		}
	}
	// The longest first: a home folder holds the user's name.
	slices.SortFunc(olds, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s := &Scrubber{}
	for _, old := range olds {
		pattern := regexp.QuoteMeta(old)
		if len(old) < shortest {
			pattern = `\b` + pattern + `\b`
		}
		s.names = append(s.names, replacement{regexp.MustCompile(`(?i)` + pattern), names[old]})
	}
	return s
}

var scrubbing = []replacement{
	// What a person is called in an address, and charged to.
	{regexp.MustCompile(`\b[\w.+-]+@([\w-]+(?:\.[\w-]+)*)`), "user@$1"},
	{regexp.MustCompile(`((?:--account|--project|-A|-P)(?:[= ]|", ?"))[^\s"',\]]+`), "${1}•••"},
	// Commands and headers that a person wrote secrets into.
	{regexp.MustCompile(`(before_login\s*=\s*).+`), `$1"•••"`},
	{regexp.MustCompile(`(?i)(authorization:|bearer|password|passwd|passphrase|api[_-]?key)(["']?\s*[:= ]\s*["']?)[^\s"',]+`), "$1$2•••"},
	// Long random words, wherever they stand.
	{regexp.MustCompile(`\b[0-9a-fA-F]{24,}\b`), "•••"},
	{regexp.MustCompile(`-----BEGIN [A-Z ]+-----(?s:.*?)(?:-----END [A-Z ]+-----|$)`), "•••"},
	{regexp.MustCompile(`\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+) [A-Za-z0-9+/=]{30,}`), "•••"},
}

// Scrub returns text without them.
func (s *Scrubber) Scrub(text string) string {
	text = api.Redact(text)
	for _, r := range scrubbing {
		text = r.old.ReplaceAllString(text, r.new)
	}
	for _, r := range s.names {
		text = r.old.ReplaceAllString(text, r.new)
	}
	return text
}
