package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// The supported login methods of RFC 4252 and RFC 4256.
const (
	methodKey         = "publickey"
	methodInteractive = "keyboard-interactive"
	methodPassword    = "password"
)

// errSSHTakesOver ends a native login: the ssh program logs in instead.
var errSSHTakesOver = errors.New("the ssh program logs in")

// login chooses one login method after another, from those that the server allows.
type login struct {
	ctx   context.Context
	try   *attempt
	s     *sshconfig.Settings
	keys  *userkeys.Keys
	began time.Time // when the server began to count the login's time

	offered     bool     // the server sent its methods
	allowed     []string // what it still accepts
	last        string   // the method under way
	passed      []string // the methods that succeeded so far
	tried       map[string]int
	keyStage    int          // the number of stages in which keys were offered
	keysLeft    []ssh.Signer // not yet offered in this stage
	interacted  bool         // keyboard-interactive or a password was tried
	typed       bool         // the method under way asked for an answer
	asked       int          // questions since the last failed method
	retry       string       // shown with the next question: the last answer was wrong
	tooLate     bool         // the server hung up before the user answered a question
	hungUp      bool         // the server closed the connection
	lost        error        // how the link that carries the login failed; nil: it works
	codes       bool         // the server asked for something other than the password
	saved       userkeys.Password
	lastMessage []api.RemoteText // the server's banner
	page        loginPagePrompt
}

func newLogin(ctx context.Context, t *attempt) *login {
	return &login{
		ctx: ctx, try: t, s: &t.settings, began: time.Now(), tried: map[string]int{},
		keys: userkeys.New(ctx, t.keyOptions()), saved: userkeys.NewPassword(t.pool.o.Passwords, t.identity),
	}
}

func (l *login) close() {
	l.page.withdraw()
	l.keys.Close()
}

// next is x/crypto's AuthCallback: it gets what the server allows now.
func (l *login) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.page.withdraw()
	if l.hungUp, l.lost = l.try.wire.ending(); l.lost != nil {
		return nil, nil //nolint:nilerr // the handshake has failed, which says nothing about the method
	}
	l.noteResult(c)
	if l.try.ask.denied != nil {
		return nil, l.try.ask.denied
	}
	if l.hungUp {
		return nil, nil
	}
	for _, name := range l.order() {
		if !slices.Contains(c.AllowedMethods, name) {
			continue
		}
		if method := l.method(name, len(c.PartialSuccessMethods)); method != nil {
			l.last, l.typed = name, false
			l.awaitPage()
			return method, nil
		}
	}
	l.last = ""
	return nil, l.giveUp()
}

// noteResult records how the last method ended.
func (l *login) noteResult(c *ssh.ClientAuthContext) {
	l.offered, l.allowed = true, c.AllowedMethods
	if l.last == "" {
		return
	}
	if len(c.PartialSuccessMethods) > len(l.passed) {
		l.passed = append(l.passed, l.last)
		clear(l.tried)
		l.try.step("logging in: " + strings.Join(l.passed, ", ") + " accepted, the server asks for more")
		return
	}
	l.tried[l.last]++
	if l.last != methodKey { // a refused key says nothing about an earlier password
		l.failedAnswers()
	}
}

// order is the methods in the user's order of preference.
func (l *login) order() []string {
	order := []string{methodKey, methodInteractive, methodPassword}
	if len(l.s.PreferredAuthentications) > 0 {
		order = slices.DeleteFunc(slices.Clone(l.s.PreferredAuthentications), func(m string) bool { return !slices.Contains(order, m) })
	}
	if l.s.OwnKey != "" && !slices.Contains(order, methodKey) {
		order = append([]string{methodKey}, order...)
	}
	enabled := map[string]bool{methodKey: l.s.PubkeyAuthentication || l.s.OwnKey != "", methodInteractive: l.s.KbdInteractive, methodPassword: l.s.PasswordAuthentication}
	return slices.DeleteFunc(order, func(m string) bool { return !enabled[m] })
}

// method returns a method to try now, or nil when it is used up. Without the user and
// without a saved password only keys are tried: even starting keyboard-interactive can
// push a request to somebody's phone. A round that failed without an answer, such as a
// push that was not confirmed, is not repeated.
func (l *login) method(name string, stage int) ssh.AuthMethod {
	if name == methodKey {
		return l.nextKey(stage)
	}
	if l.tried[name] > 0 && !l.typed || l.triesLeft() <= 0 || !l.try.ask.attended && !l.saved.IsSaved(l.ctx) {
		return nil
	}
	l.interacted = true
	if name == methodPassword {
		return ssh.PasswordCallback(l.password)
	}
	l.try.ask.awaitPerson() // a push may come without a question
	return ssh.KeyboardInteractive(l.challenge)
}

// nextKey offers one key at a time. Given several, the library stops at the first that
// the server accepts but that cannot sign, though another key may do.
func (l *login) nextKey(stage int) ssh.AuthMethod {
	if l.keyStage <= stage {
		l.keyStage = stage + 1
		l.keysLeft = l.keys.Signers()
	}
	if len(l.keysLeft) == 0 {
		return nil
	}
	key := l.keysLeft[0]
	l.keysLeft = l.keysLeft[1:]
	l.keys.Offer(key)
	return ssh.PublicKeys(key)
}

// triesLeft is how often the user may still answer. Both methods usually ask for the same
// password, so they share the count.
func (l *login) triesLeft() int {
	return max(l.s.NumberOfPasswordPrompts, 1) - l.tried[methodPassword] - l.tried[methodInteractive]
}

// prompt asks the user. The first question after a wrong answer says so.
func (l *login) prompt(p api.Prompt) (api.Answer, error) {
	p.Retry, l.retry = l.retry, ""
	l.page.withdraw()
	l.page.addTo(&p, loginPages(l.try.host))
	answer, err := l.try.ask.Prompt(l.ctx, p)
	l.tooLate = err != nil && l.try.ask.denied == nil
	return answer, err
}

func (l *login) password() (string, error) {
	return l.secret(api.Prompt{
		Kind: api.PromptPassword,
		Text: fmt.Sprintf("%s@%s's password: ", l.s.User, l.s.Hostname),
	})
}

// challenge answers one round of keyboard-interactive (RFC 4256). Every question goes to
// the user; only the account's password may be a saved one.
func (l *login) challenge(name, instruction string, questions []string, echos []bool) ([]string, error) {
	l.page.withdraw()
	about := api.NewRemoteText(strings.TrimSpace(name) + "\n" + instruction)
	if len(questions) == 0 {
		if !about.IsZero() {
			l.try.step(api.LoginSays + about.String())
		}
		l.noteLinks(name+"\n"+instruction, false)
		return nil, nil
	}
	answers := make([]string, len(questions))
	for i, q := range questions {
		answer, err := l.answer(api.Prompt{Kind: api.PromptQuestion, Text: api.NewRemoteText(q).String(), Instruction: about.String(), Echo: echos[i], Links: linksIn(name, instruction, q)})
		if err != nil {
			return nil, err
		}
		answers[i] = answer
	}
	return answers, nil
}

// answer answers one question of a challenge.
func (l *login) answer(p api.Prompt) (string, error) {
	if userkeys.AsksPassword(p.Text, p.Echo) {
		p.Kind = api.PromptPassword
		return l.secret(p)
	}
	l.typed, l.codes = true, true
	l.asked++
	answer, err := l.prompt(p)
	return answer.Text, err
}

// secret answers a question for the account's password: with the saved one if it is the
// login's first question, otherwise by asking the user. It never sends the saved one
// twice: a second question in a row wants something else.
func (l *login) secret(p api.Prompt) (string, error) {
	l.typed = true
	l.asked++
	if l.asked == 1 && l.saved.IsSaved(l.ctx) {
		return l.saved.Use(), nil
	}
	answer, err := l.prompt(p)
	l.saved.SetTyped(answer)
	return answer.Text, err
}

// failedAnswers is called after a method failed: it notes a refused saved password and
// prepares the next question.
func (l *login) failedAnswers() {
	wrong := "that was not right"
	if l.asked > 1 {
		wrong = "one of these answers was not right"
	}
	if l.saved.SetRefused(l.asked == 1) {
		wrong = "the saved password was not accepted"
		l.try.ask.Warn(wrong + ", and is not used until you have logged in with a password")
	}
	if l.typed && l.triesLeft() > 0 {
		l.retry = api.RetryText(wrong, l.triesLeft())
	}
	l.asked = 0
}

// keepPassword saves the password that the host has accepted, if the user chose so.
func (l *login) keepPassword() {
	if err := l.saved.Keep(l.ctx); err != nil {
		l.try.ask.Warn(fmt.Sprintf("the password was not saved: %v", err))
	}
}

// banner records what the server sends before the login.
func (l *login) banner(message string) error {
	text := api.NewRemoteText(message)
	if len(l.lastMessage) < 8 {
		l.lastMessage = append(l.lastMessage, text)
	}
	l.noteLinks(message, true)
	return nil
}

// giveUp is why no method is left; nil lets the library report the refusal.
func (l *login) giveUp() error {
	if len(l.tried) == 0 {
		if yes, err := l.try.handOverToSSH(l.allowed); yes || err != nil {
			return cmp.Or(err, errSSHTakesOver)
		}
	}
	if asked, ok := errors.AsType[*api.Error](l.keys.Cause); ok { // nobody could be asked for a passphrase
		l.try.ask.denied = asked
		return asked
	}
	if l.try.ask.attended {
		return nil
	}
	interactive := slices.ContainsFunc(l.allowed, func(m string) bool { return m == methodPassword || m == methodInteractive })
	switch {
	case l.keys.SignFailure != "":
		return l.try.ask.deny(l.keys.SignFailure, l.keys.Cause)
	case len(l.passed) > 0 && interactive:
		return l.try.ask.deny("the server asks for more than a key", nil)
	case interactive && l.tried[methodKey] > 0:
		return l.try.ask.deny("the server accepted no key and asks for "+methodsText(l.allowed), nil)
	case l.tried[methodKey] == 0:
		return l.try.ask.deny("no key is available: is the ssh-agent running, and the key loaded?", nil)
	}
	return nil
}

// methods is how the login was done, for display.
func (l *login) methods() string {
	if l.last == "" {
		return "none"
	}
	return strings.Join(append(slices.Clone(l.passed), l.last), "+")
}

// methodsText are login methods in words.
func methodsText(methods []string) string {
	words := map[string]string{methodKey: "a key", methodPassword: "a password or code", methodInteractive: "a password or code", "gssapi-with-mic": "Kerberos"}
	var list []string
	for _, m := range methods {
		if w := cmp.Or(words[m], m); !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return strings.Join(list, " or ")
}

// silent reports whether the same login would succeed without the user.
func (l *login) silent() bool {
	return (!l.interacted || l.asked == 1 && l.saved.IsKept()) && !l.keys.Touched && !l.page.shown
}

// refused describes a refused login.
func (l *login) refused(err error) *api.Error {
	late := l.hungUp && l.try.ask.hungUpLate(l.began)
	if l.tooLate || l.keys.TooLate || late && l.interacted {
		return l.try.ask.cutOff(err)
	}
	if late || l.hungUp && l.triedNothing() {
		return failure.Passing.Errorf(api.CodeUnreachable, err, "%s closed the connection during the login", l.s.Address())
	}
	e := &api.Error{Code: api.CodeAuth, Err: failure.Refused.Wrap(err)}
	e.Message = fmt.Sprintf("%s refused the login of %q", l.s.Address(), l.s.User)
	did := slices.DeleteFunc([]string{methodKey, methodInteractive, methodPassword}, func(m string) bool { return l.tried[m] == 0 && l.last != m })
	var what []string
	if slices.Contains(did, methodKey) && !slices.Contains(l.passed, methodKey) {
		what = append(what, "no key was accepted ("+l.keys.Describe()+")")
	}
	if slices.Contains(did, methodInteractive) || slices.Contains(did, methodPassword) {
		what = append(what, "the password or code was not accepted")
	}
	if len(did) == 0 {
		what = append(what, "neither a key nor a password was offered")
	}
	if l.keys.SignFailure != "" {
		what = append(what, l.keys.SignFailure)
	}
	if others := slices.DeleteFunc(slices.Clone(l.allowed), func(m string) bool { return slices.Contains(did, m) }); len(others) > 0 {
		what = append(what, "the server accepts "+methodsText(others))
	}
	if len(what) > 0 {
		e.Message += ": " + strings.Join(what, "; ")
	}
	if text, ok := disconnectText(err); ok {
		e.Message += "; the server said: " + text.String()
	}
	e.Hint = l.hint(did, err)
	return e
}

// triedNothing reports whether the server has seen a key at most, without a signature: PAM,
// which refuses by hanging up, was not asked yet.
func (l *login) triedNothing() bool {
	return !l.interacted && !l.keys.HasSigned() && l.tried[methodKey] <= 1
}

// needsPerson reports whether the same login would need the user again.
func (l *login) needsPerson() bool {
	return l.tooLate || l.keys.TooLate || l.keys.Touched || l.interacted && l.try.ask.attended
}

func (l *login) hint(did []string, err error) string {
	text, _ := disconnectText(err)
	tooMany := strings.Contains(text.String(), "Too many")
	switch {
	case l.keys.Expired != "" && !l.interacted:
		return l.keys.RenewHint()
	case l.try.host.behind != "" || l.saysNoJob(text):
		return onlyWithJob(l.try.host.behind)
	case len(l.keys.Offered) > 5, tooMany && !l.interacted:
		return "your ssh-agent holds many keys: name the right one with IdentityFile and set IdentitiesOnly yes"
	case l.interacted && l.codes:
		return fmt.Sprintf("check the user name %q and what you entered: a one-time code works once, and only for a short time", l.s.User)
	case l.interacted:
		return fmt.Sprintf("check the user name %q and the password", l.s.User)
	case !slices.Contains(did, methodKey) && slices.Contains(l.allowed, methodKey):
		return "no key was offered: " + l.keys.Hint()
	}
	return fmt.Sprintf("check the user name %q, and that your public key is registered with the site", l.s.User)
}

// saysNoJob reports whether the server said, as pam_slurm does, that only users with a
// job there may log in.
func (l *login) saysNoJob(disconnect api.RemoteText) bool {
	return slices.ContainsFunc(append(slices.Clone(l.lastMessage), disconnect), func(text api.RemoteText) bool {
		return strings.Contains(text.String(), "no active jobs")
	})
}

// onlyWithJob is the hint after a compute node refused a login.
func onlyWithJob(login string) string {
	if login == "" {
		return "nodes let you in only while your job runs there"
	}
	return "nodes let you in only while your job runs there; `tunctl jobs " + login + "` lists your jobs"
}

// disconnectText is the message of a disconnect. The library's type is private, so it is
// cut out of the text: "ssh: disconnect, reason 2: "…"".
func disconnectText(err error) (api.RemoteText, bool) {
	if err == nil {
		return api.RemoteText{}, false
	}
	_, text, ok := strings.Cut(err.Error(), "ssh: disconnect, reason ")
	if !ok {
		return api.RemoteText{}, false
	}
	if _, said, ok := strings.Cut(text, ": "); ok {
		text = said
	}
	if plain, err := strconv.Unquote(text); err == nil {
		text = plain
	}
	return api.NewRemoteText(text), true
}
