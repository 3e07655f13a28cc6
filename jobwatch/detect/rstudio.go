package detect

import (
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// RStudio asks for a user and a password. Job scripts, and the images of the Rocker
// project, make a password for each job and print it:
//
//  2. log in to RStudio Server using the following credentials:
//
//     user: ann
//     password: Zm9vYmFyYmF6
//
//     The password is set to Zm9vYmFyYmF6
//
// api.Redact hides the same lines.
var (
	loginUser     = regexp.MustCompile(`(?i)^\W*user(?:name)?:\s+(\S+)\s*$`)
	loginPassword = regexp.MustCompile(`(?i)^\W*password:\s+(\S+)\s*$`)
	setPassword   = regexp.MustCompile(`^The password is set to (\S+)\s*$`)
)

// login is what a server's login page asks for.
type login struct {
	at       position // of the password
	user     string
	password api.Secret
}

func readRStudioLogin(r *reader, l logLine) {
	if m := setPassword.FindStringSubmatch(l.text); m != nil {
		r.setLogin("", m[1], l)
		return
	}
	if r.appNear(l) != appRStudio {
		return
	}
	if m := loginUser.FindStringSubmatch(l.text); m != nil && !isPlaceholder(m[1]) {
		r.loginUser, r.loginUserAt = strings.Clone(m[1]), l.at.line
	}
	if m := loginPassword.FindStringSubmatch(l.text); m != nil {
		user := ""
		if r.loginUser != "" && l.at.line-r.loginUserAt <= nearby {
			user = r.loginUser
		}
		r.setLogin(user, m[1], l)
	}
}

func (r *reader) setLogin(user, password string, l logLine) {
	if isPlaceholder(password) || len(password) > 255 {
		return
	}
	r.ev.setLogin(login{at: l.at, user: user, password: api.NewSecret(strings.Clone(password))})
}

// isPlaceholder reports whether a word stands for a value, as in instructions.
func isPlaceholder(word string) bool {
	return strings.ContainsAny(word, "<>${}") || strings.Trim(word, ".-*_•…") == ""
}
