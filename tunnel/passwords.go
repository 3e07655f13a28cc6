package tunnel

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// Passwords keeps the passwords that a person asked to be kept, by account. A
// password is looked up at each login that asks for one.
type Passwords interface {
	Password(ctx context.Context, account string) (string, bool)
	Keep(ctx context.Context, account, password string, where api.Keep) error
	// Forget is called when the host did not accept the password.
	Forget(ctx context.Context, account string)
}

// noPasswords is for a pool that was given none: nothing is kept.
type noPasswords struct{}

func (noPasswords) Password(context.Context, string) (string, bool) { return "", false }

func (noPasswords) Keep(context.Context, string, string, api.Keep) error {
	return fmt.Errorf("no password storage is available")
}

func (noPasswords) Forget(context.Context, string) {}

// savedPassword is the part that a kept password plays in one login.
type savedPassword struct {
	looked bool
	text   string // "" when none is kept
	used   bool   // it was given to the host
	typed  string // one to keep, once the host has accepted it
	where  api.Keep
}

// hasSaved reports whether there is a kept password that was not given yet.
func (l *login) hasSaved() bool {
	if !l.saved.looked {
		l.saved.looked = true
		l.saved.text, _ = l.try.pool.o.Passwords.Password(l.ctx, l.s.Account())
	}
	return l.saved.text != "" && !l.saved.used
}

// secret answers a question for the account's password: with the kept one if it is
// the login's first question, else by asking the person. Never a second time: where
// two questions follow each other, the second wants something else.
func (l *login) secret(p api.Prompt) (string, error) {
	l.typed = true
	l.asked++
	if l.asked == 1 && l.hasSaved() {
		l.saved.used = true
		return l.saved.text, nil
	}
	answer, err := l.put(p)
	l.saved.typed, l.saved.where = answer.Text, answer.Keep
	return answer.Text, err
}

// failedAnswers draws the conclusions of a method that failed.
func (l *login) failedAnswers() {
	wrong := "that was not right"
	if l.asked > 1 {
		wrong = "one of these answers was not right"
	}
	if l.saved.used && l.saved.text != "" && l.asked == 1 {
		l.saved.text = ""
		l.try.pool.o.Passwords.Forget(l.ctx, l.s.Account())
		wrong = "the saved password was not accepted"
		l.try.warn(wrong + " and has been deleted")
	}
	if l.typed && l.triesLeft() > 0 {
		l.retry = notRight(wrong, l.triesLeft())
	}
	l.saved.typed, l.saved.where = "", ""
	l.asked = 0
}

// keepPassword keeps what was typed, if the person said so and the host took it.
func (l *login) keepPassword() {
	if l.saved.where == "" {
		return
	}
	if err := l.try.pool.o.Passwords.Keep(l.ctx, l.s.Account(), l.saved.typed, l.saved.where); err != nil {
		l.saved.where = ""
		l.try.warn(fmt.Sprintf("the password was not saved: %v", err))
	}
}

// answersItself reports whether the questions of this login can be answered without
// a person the next time.
func (l *login) answersItself() bool {
	return l.asked == 1 && (l.saved.used && l.saved.text != "" || l.saved.where != "")
}

// passwordQuestion is how PAM and others ask for the account's password, and not for
// a code that is called a password too.
var passwordQuestion = regexp.MustCompile(`(?i)^(\(\S+\) )?(\S+'s )?password( for \S+)?:?$`)

func asksPassword(question string, echo bool) bool {
	return !echo && passwordQuestion.MatchString(strings.TrimSpace(question))
}
