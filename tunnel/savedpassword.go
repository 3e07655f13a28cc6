package tunnel

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// Passwords stores the passwords that a person chose to save, by account as [Host.Account]
// has it. Each login that asks for a password looks it up.
type Passwords interface {
	// Password is the saved password, unless the host refused it.
	Password(ctx context.Context, account string) (string, bool)
	Keep(ctx context.Context, account, password string, where api.Keep) error
	// SetRefused is called when the host did not accept the password. It is kept, since
	// hosts also refuse right ones while something fails there, and not used until Keep.
	SetRefused(account string)
	// Refused is where a password is kept that the host refused.
	Refused(account string) api.Keep
}

// noPasswords is the default Passwords: it saves nothing.
type noPasswords struct{}

func (noPasswords) Password(context.Context, string) (string, bool) { return "", false }

func (noPasswords) Keep(context.Context, string, string, api.Keep) error {
	return fmt.Errorf("no password storage is available")
}

func (noPasswords) SetRefused(string)       {}
func (noPasswords) Refused(string) api.Keep { return api.KeepNot }

// savedPassword is the state of saved passwords in one login.
type savedPassword struct {
	looked bool
	text   string // "": none is saved
	used   bool   // it was sent to the host
	typed  string // the first one that the person typed, to save once the host accepts it
	where  api.Keep
}

// hasSaved reports whether there is a saved password that was not sent yet.
func (l *login) hasSaved() bool {
	if !l.saved.looked {
		l.saved.looked = true
		l.saved.text, _ = l.try.pool.o.Passwords.Password(l.ctx, l.try.identity)
	}
	return l.saved.text != "" && !l.saved.used
}

// secret answers a question for the account's password: with the saved one if it is the
// login's first question, otherwise by asking the person. It never sends the saved one
// twice: a second question in a row wants something else.
func (l *login) secret(p api.Prompt) (string, error) {
	l.typed = true
	l.asked++
	if l.asked == 1 && l.hasSaved() {
		l.saved.used = true
		return l.saved.text, nil
	}
	answer, err := l.prompt(p)
	if l.saved.typed == "" { // the next one may be a code that is also called a password
		l.saved.typed, l.saved.where = answer.Text, answer.Keep
	}
	return answer.Text, err
}

// failedAnswers is called after a method failed: it notes a refused saved password and
// prepares the next question.
func (l *login) failedAnswers() {
	wrong := "that was not right"
	if l.asked > 1 {
		wrong = "one of these answers was not right"
	}
	if l.saved.used && l.saved.text != "" && l.asked == 1 {
		l.saved.text = ""
		l.try.pool.o.Passwords.SetRefused(l.try.identity)
		wrong = "the saved password was not accepted"
		l.try.Warn(wrong + ", and is not used until you have logged in with a password")
	}
	if l.typed && l.triesLeft() > 0 {
		l.retry = wrongAnswer(wrong, l.triesLeft())
	}
	l.saved.typed, l.saved.where = "", ""
	l.asked = 0
}

// keepPassword saves what was typed and accepted by the host, if the person chose so, now or
// for an earlier one that the host has refused since.
func (l *login) keepPassword() {
	if l.saved.typed == "" {
		return
	}
	l.saved.where = cmp.Or(l.saved.where, l.try.pool.o.Passwords.Refused(l.try.identity))
	if l.saved.where == "" {
		return
	}
	if err := l.try.pool.o.Passwords.Keep(l.ctx, l.try.identity, l.saved.typed, l.saved.where); err != nil {
		l.saved.where = ""
		l.try.Warn(fmt.Sprintf("the password was not saved: %v", err))
	}
}

// needsNoPerson reports whether the next login can answer these questions without a
// person.
func (l *login) needsNoPerson() bool {
	return l.asked == 1 && (l.saved.used && l.saved.text != "" || l.saved.where != "")
}

// passwordQuestion matches how PAM and others ask for the account's password, but not a
// code that is also called a password.
var passwordQuestion = regexp.MustCompile(`(?i)^(\(\S+\) )?(\S+'s )?password( for \S+)?:?$`)

func asksPassword(question string, echo bool) bool {
	return !echo && passwordQuestion.MatchString(strings.TrimSpace(question))
}
