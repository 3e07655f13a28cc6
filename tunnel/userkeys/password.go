package userkeys

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// Passwords stores the passwords that the user chose to save, by account: user@address
// and the way there. Each login that asks for a password looks it up.
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

// Password is the password of one login: the saved one, and what the user types.
type Password struct {
	store   Passwords
	account string
	looked  bool
	text    string // the saved one; "": none
	used    bool   // it was sent to the host
	typed   string // the first one that the user typed, to save once the host accepts it
	where   api.Keep
}

// NewPassword is the password of an account.
func NewPassword(store Passwords, account string) Password {
	return Password{store: store, account: account}
}

// IsSaved reports whether there is a saved password that was not sent yet.
func (p *Password) IsSaved(ctx context.Context) bool {
	if !p.looked {
		p.looked = true
		p.text, _ = p.store.Password(ctx, p.account)
	}
	return p.text != "" && !p.used
}

// Use is the saved password, to send to the host.
func (p *Password) Use() string {
	p.used = true
	return p.text
}

// SetTyped takes in what the user typed. Only the first counts: the next one may be a code
// that is also called a password.
func (p *Password) SetTyped(answer api.Answer) {
	if p.typed == "" {
		p.typed, p.where = answer.Text, answer.Keep
	}
}

// SetRefused takes in that the host refused what it was sent, and reports whether that was
// the saved password, which is then not used until another one is saved. alone says that
// nothing else was sent.
func (p *Password) SetRefused(alone bool) (saved bool) {
	saved = p.used && p.text != "" && alone
	if saved {
		p.text = ""
		p.store.SetRefused(p.account)
	}
	p.typed, p.where = "", ""
	return saved
}

// Keep saves what was typed and accepted by the host, if the user chose so, now or for an
// earlier one that the host has refused since.
func (p *Password) Keep(ctx context.Context) error {
	if p.typed == "" {
		return nil
	}
	if p.where = cmp.Or(p.where, p.store.Refused(p.account)); p.where == "" {
		return nil
	}
	err := p.store.Keep(ctx, p.account, p.typed, p.where)
	if err != nil {
		p.where = ""
	}
	return err
}

// IsKept reports whether the next login has the password without asking.
func (p *Password) IsKept() bool { return p.used && p.text != "" || p.where != "" }

// passwordQuestion matches how PAM and others ask for the account's password, but not a
// code that is also called a password.
var passwordQuestion = regexp.MustCompile(`(?i)^(\(\S+\) )?(\S+'s )?password( for \S+)?:?$`)

// AsksPassword reports whether a question of a server asks for the account's password.
func AsksPassword(question string, echo bool) bool {
	return !echo && passwordQuestion.MatchString(strings.TrimSpace(question))
}
