package api

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// secretParam matches the query parameters that carry a server's token.
var secretParam = regexp.MustCompile(`(?i)\b((?:\w*_)?token|tkn|secret|password|_xsrf)=([^\s&"'<>\\]+)`)

var (
	// printedPassword matches how job scripts print a password: "password: Zm9v", "The
	// password is set to Zm9v".
	printedPassword = regexp.MustCompile(`(?i)(\bpassword(?::| is set to)[ \t]+)\S+`)
	// beforePassword matches the end of a text after which a password may follow.
	beforePassword = regexp.MustCompile(`(?i)\bpassword(?::| +is(?: +set(?: +to)?)?)?[ \t]+$`)
)

// beforeMax bounds the text that beforePassword is tried on.
const beforeMax = 64

// mentionsPassword reports whether a text may match one of these. It costs much less.
func mentionsPassword(text string) bool {
	return strings.Contains(text, "assword") || strings.Contains(text, "ASSWORD")
}

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
	text = secretParam.ReplaceAllString(text, "${1}="+mask)
	if mentionsPassword(text) {
		text = printedPassword.ReplaceAllString(text, "${1}"+mask)
	}
	return text
}

const (
	// heldMax bounds what a Redactor holds back: a word longer than that is passed on
	// in parts.
	heldMax = 64 << 10
	// heldOverlap is what it holds back of such a word all the same: more than the
	// name of any parameter that carries a secret.
	heldOverlap = 1 << 10
)

// Redactor is Redact for text that comes in stretches. A secret may begin in one and
// end in another; no secret of a URL has a space in it, so the last word of each
// stretch is held back until it is known to be whole. Bytes that are no text pass as
// they are.
type Redactor struct {
	known  []Secret
	held   []byte // the last word so far
	secret bool   // what comes belongs to a secret that began before
}

// NewRedactor returns a Redactor that knows these secrets.
func NewRedactor(known ...Secret) *Redactor { return &Redactor{known: known} }

// Add takes a stretch in and returns what can be passed on by now.
func (r *Redactor) Add(data []byte) []byte {
	all := slices.Concat(r.held, r.rest(data))
	cut := r.cut(all)
	r.held = all[cut:]
	return r.redact(all[:cut])
}

// Flush returns what was held back, when nothing follows it.
func (r *Redactor) Flush() []byte {
	rest := r.held
	r.held, r.secret = nil, false
	return r.redact(rest)
}

// Held is how many bytes are held back.
func (r *Redactor) Held() int { return len(r.held) }

func (r *Redactor) redact(data []byte) []byte { return []byte(Redact(string(data), r.known...)) }

// rest is data without the end of a secret whose beginning was passed on as dots.
func (r *Redactor) rest(data []byte) []byte {
	if !r.secret || len(data) == 0 {
		return data
	}
	end := bytes.IndexAny(data, secretEnd)
	if end < 0 {
		return nil
	}
	r.secret = false
	return data[end:]
}

// cut is where data can be parted without parting a secret.
func (r *Redactor) cut(data []byte) int {
	at := bytes.LastIndexAny(data, " \t\n\f\r") + 1
	if len(data)-at > heldMax {
		if at = r.cutWord(data); r.secret {
			return at
		}
	}
	for moved := true; moved; {
		moved = false
		if end := string(data[max(0, at-beforeMax):at]); mentionsPassword(end) {
			if m := beforePassword.FindStringIndex(end); m != nil {
				at, moved = at-len(end)+m[0], true
			}
		}
		for _, s := range r.known {
			if n := overlap(data[:at], s.text); n > 0 {
				at, moved = at-n, true
			}
		}
	}
	return at
}

// cutWord parts a word that is too long to be held back: in front of its end, but
// behind a secret there. One that goes on is passed on as dots, and its rest dropped.
func (r *Redactor) cutWord(data []byte) int {
	at := len(data) - heldOverlap
	for _, match := range secretParam.FindAllIndex(data, -1) {
		switch {
		case match[1] == len(data):
			r.secret = true
			return len(data)
		case match[0] < at && at < match[1]:
			return match[1]
		}
	}
	return at
}

// overlap is how many bytes at the end of data may be the beginning of a secret.
func overlap(data []byte, secret string) int {
	for n := min(len(secret)-1, len(data)); n > 0; n-- {
		if strings.HasPrefix(secret, string(data[len(data)-n:])) {
			return n
		}
	}
	return 0
}

// mask stands where a secret would.
const mask = "•••"

// Secret is a token or a password. It prints, logs and marshals as three dots,
// so that no careless verb can leak it; Reveal is the one way to its text.
type Secret struct{ text string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return mask
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON implements json.Marshaler.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
