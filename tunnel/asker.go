package tunnel

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// asker puts the questions of one try to the user, and keeps its time meanwhile.
type asker struct {
	host     *Host
	attended bool       // the user may be asked
	client   string     // the client that the user used
	timeout  *timeout   // of the login under way; nil: none is
	denied   *api.Error // why the try was stopped on our side
}

// Warn shows a warning that does not stop the try.
func (a *asker) Warn(text string) {
	a.host.log.Warn("ssh settings", "warning", text)
	a.host.mu.Lock()
	defer a.host.mu.Unlock()
	a.host.warnLocked(text)
}

// awaitPerson gives the login the user's time from now on: the server may have asked them
// by other means, such as a push to a phone, or a key may need a touch.
func (a *asker) awaitPerson() { a.timeout.restart(true, a.host.pool.o.Limits.PromptTimeout) }

// awaitHost gives the login the host's time from now on.
func (a *asker) awaitHost() { a.timeout.restart(false, a.host.pool.o.Limits.HandshakeTimeout) }

// unconfirmed is the error of a login that the user did not confirm in their time.
func (a *asker) unconfirmed(cause error) *api.Error {
	return needsUser(a.host.name, "the login was not confirmed within "+api.DurationText(a.host.pool.o.Limits.PromptTimeout), cause)
}

// hungUpLate reports whether a server that ended a login without a word has not refused
// it: a server that refuses in this way does so at once. Later, it is the end of the time
// that it gives a login (LoginGraceTime).
func (a *asker) hungUpLate(began time.Time) bool {
	return time.Since(began) >= a.host.pool.o.Limits.HandshakeTimeout
}

// brokenLogin says that a login which needs the user must be begun again.
const brokenLogin = "the connection broke before the login was complete"

// cutOff is the error of a login that the server did not wait for.
func (a *asker) cutOff(cause error) *api.Error {
	return needsUser(a.host.name, "the server closed the connection before the login was complete", cause)
}

// Prompt asks the user who waits for this try. The handshake's timeout pauses
// meanwhile. An error ends the try.
func (a *asker) Prompt(ctx context.Context, p api.Prompt) (api.Answer, error) {
	p.Host = a.host.name
	p.LoginPage = loginPage(p.Links, loginPages(a.host))
	// The texts come from the server, or from a program that we ran.
	p.Text, p.Instruction = api.NewRemoteText(p.Text).String(), api.NewRemoteText(p.Instruction).String()
	text := promptTexts[p.Kind]
	if !a.attended {
		return api.Answer{}, a.deny("the login asks "+text.wanted, failure.ErrNobody)
	}
	if a.timeout != nil {
		a.timeout.stop()
		defer a.timeout.resume(a.host.pool.o.Limits.PromptTimeout)
	}
	limit := a.host.pool.o.Limits.PromptTimeout
	if len(p.Links) > 0 {
		limit = max(limit, pageTimeout)
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer a.host.setAsking("", nil)
	answer, err := a.promptClients(asking, p)
	switch {
	case err == nil && answer.Cancelled:
		return api.Answer{}, a.deny(text.unanswered, context.Canceled)
	case err == nil:
		return answer, nil
	case errors.Is(err, failure.ErrNobody):
		return api.Answer{}, a.deny("there is no terminal or desktop to ask "+text.wanted, err)
	case ctx.Err() != nil:
		return api.Answer{}, err // the server hung up, or the host is no longer wanted
	case asking.Err() != nil:
		return api.Answer{}, a.deny(fmt.Sprintf("there was no answer within %s", api.DurationText(limit)), err)
	}
	return api.Answer{}, a.deny(fmt.Sprintf("asking failed: %v", err), err)
}

// promptClients asks through the client that caused the try. If that has left, or its
// user cancels, the next client that asked for the host is used.
func (a *asker) promptClients(ctx context.Context, p api.Prompt) (api.Answer, error) {
	for {
		p.Client = a.client
		answer, err := a.host.pool.o.Prompter.Prompt(ctx, p, func() { a.host.setAsking(p.Kind, p.Links) })
		a.host.mu.Lock()
		next := a.host.facts.client
		a.host.mu.Unlock()
		if next == a.client || !answer.Cancelled && !errors.Is(err, failure.ErrNobody) {
			return answer, err
		}
		a.client = next
	}
}

// promptTexts say what a question is for, and that the user did not answer it, without its
// text: that may have a device code, and causes are logged and shown to assistants.
var promptTexts = map[api.PromptKind]struct{ wanted, unanswered string }{
	api.PromptPassword:   {"for a password", "no password was entered"},
	api.PromptPassphrase: {"for a passphrase", "no passphrase was entered"},
	api.PromptHostKey:    {"about the host key", "the host key was not accepted"},
	api.PromptConfirm:    {"whether to try again", "you chose not to try again"},
	api.PromptPage:       {"to log in with the browser", "you chose not to log in with the browser"},
	api.PromptQuestion:   {"for a code or another answer", "the question was not answered"},
}

// deny stops the try: only the user can continue.
func (a *asker) deny(why string, cause error) *api.Error {
	if a.denied == nil {
		a.denied = needsUser(a.host.name, why, cause)
	}
	return a.denied
}

// confirmBan asks the user before a try that may prolong a suspected ban.
func (a *asker) confirmBan(ctx context.Context) error {
	answer, err := a.Prompt(ctx, api.Prompt{
		Kind: api.PromptConfirm, Echo: true,
		Text: fmt.Sprintf("%s may have banned this address after refused logins; another try can prolong the ban. Try anyway?", a.host.label()),
	})
	if err != nil {
		return err
	}
	if !answer.IsYes() {
		return a.deny("a ban is suspected, and you chose to wait", nil)
	}
	return nil
}

// timeout calls a function when something takes too long. It pauses while the user
// answers in tunctl. It works where deadlines do not: a connection through a jump host has none,
// and x/crypto's Timeout covers only the TCP connect (golang/go#51926).
type timeout struct {
	mu        sync.Mutex
	timer     *time.Timer
	due       time.Time
	person    bool // the limit is the user's, not the host's
	isExpired bool
}

func newTimeout(limit time.Duration, onExpire func()) *timeout {
	t := &timeout{due: time.Now().Add(limit)}
	t.timer = time.AfterFunc(limit, func() {
		t.mu.Lock()
		t.isExpired = true
		t.mu.Unlock()
		onExpire()
	})
	return t
}

// restart starts a new limit, of the user or of the host, unless the old one is reached or
// paused.
func (t *timeout) restart(person bool, limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer.Stop() {
		t.startLocked(person, limit)
	}
}

func (t *timeout) startLocked(person bool, limit time.Duration) {
	t.person, t.due = person, time.Now().Add(limit)
	t.timer.Reset(limit)
}

// shorten makes the limit end within a time.
func (t *timeout) shorten(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.due) > limit && t.timer.Stop() {
		t.startLocked(t.person, limit)
	}
}

// resume ends a pause with a limit for the user: an answer may lead to another question,
// outside tunctl.
func (t *timeout) resume(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isExpired {
		t.startLocked(true, limit)
	}
}

// stop ends the limit, or pauses it.
func (t *timeout) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// expired reports whether the limit was reached, and whether it was the user's.
func (t *timeout) expired() (expired, person bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isExpired, t.isExpired && t.person
}

const (
	// pageDelay is how long the server keeps a login waiting, after it sent a link, before
	// the user is asked to open it. bannerDelay is for banners, whose links are mostly to
	// terms of use, while the login is only slow.
	pageDelay   = 2 * time.Second
	bannerDelay = 10 * time.Second
	// pageTimeout is how long a question with a link waits: to log in to a page takes longer
	// than to type a code.
	pageTimeout = 5 * time.Minute
	maxLinks    = 4
	maxLink     = 4 << 10 // bytes; a longer one is not meant for people
)

var webAddress = regexp.MustCompile(`(?i)\bhttps?://\S+`)

// linksIn are the web addresses in texts of a server, as they are shown.
func linksIn(texts ...string) []string {
	var links []string
	for _, text := range texts {
		for _, link := range webAddress.FindAllString(api.Sanitize(text), -1) {
			link = strings.TrimRight(link, ".,;:!?'\"`)]}>") // of the sentence around it
			if len(link) <= maxLink && len(links) < maxLinks && !slices.Contains(links, link) {
				links = append(links, link)
			}
		}
	}
	return links
}

// hideLinks is what a program that logs in printed, for messages: a link may have a device
// code.
func hideLinks(text api.RemoteText) string {
	return webAddress.ReplaceAllString(text.String(), "•••")
}

// loginPage is the first of links that may be opened: an https page of one of the hosts. All
// browsers must read the host as we do, so nothing may stand before or after its name.
func loginPage(links, hosts []string) string {
	for _, link := range links {
		for _, host := range hosts {
			rest, ok := strings.CutPrefix(link, "https://"+host)
			if ok && (rest == "" || strings.ContainsAny(rest[:1], "/?#")) && isPrintableASCII(rest) {
				return link
			}
		}
	}
	return ""
}

func isPrintableASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' })
}

// loginPages are the hosts whose pages a login may open: those of the host's site, and those
// of the sites that are reached through it, since a jump host may ask for the login.
func loginPages(h *Host) []string {
	var pages []string
	hosts := []*Host{h}
	for i := 0; i < len(hosts); i++ {
		for _, user := range h.pool.sharing.usersOf(hosts[i]) {
			if !slices.Contains(hosts, user) {
				hosts = append(hosts, user)
			}
		}
		hosts[i].mu.Lock()
		pages = append(pages, hosts[i].used.LoginPages...)
		hosts[i].mu.Unlock()
	}
	return pages
}

// loginPagePrompt is the question to open a page, while the server waits for that. Its methods
// are for the goroutine of the login.
type loginPagePrompt struct {
	notice string        // the server's texts with links, for the next question
	links  []string      // in them
	delay  time.Duration // until the user is asked; 0: never
	shown  bool          // the user was asked
	end    func()        // withdraws the question; nil: there is none
}

// noteLinks remembers a text of the server, if it has links, and awaits their use. Without a
// user, a banner stops a login only if its link is to a login page. A server may send any
// number of banners; only the first links count.
func (l *login) noteLinks(text string, banner bool) {
	links := linksIn(text)
	p := &l.page
	if len(links) == 0 || len(p.links) >= maxLinks {
		return
	}
	p.withdraw()
	p.notice = strings.TrimSpace(p.notice + "\n" + api.NewRemoteText(text).String())
	p.links = append(p.links, links...)
	switch {
	case !banner || loginPage(links, loginPages(l.try.host)) != "":
		p.delay = pageDelay
	case l.try.ask.attended && p.delay == 0:
		p.delay = bannerDelay
	}
	l.awaitPage()
}

// awaitPage asks the user to open the page that the server sent a link to, if the server
// keeps the login waiting. The next step of the login withdraws the question.
func (l *login) awaitPage() {
	p := &l.page
	if p.notice == "" || p.delay == 0 {
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan struct{})
	p.end = func() {
		cancel()
		<-done
	}
	prompt := api.Prompt{Kind: api.PromptPage, Text: "Log in at " + p.links[0], Instruction: p.notice, Links: slices.Clone(p.links)}
	go func() {
		defer close(done)
		select {
		case <-time.After(p.delay):
		case <-ctx.Done():
			return
		}
		p.shown = true
		_, err := l.try.ask.Prompt(ctx, prompt)
		if err != nil && ctx.Err() == nil {
			_ = l.try.wire.Close() // the server would wait for nothing
		}
	}()
}

// withdraw ends the question, if it is open.
func (p *loginPagePrompt) withdraw() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// addTo adds the server's texts with links to the next question, as ssh shows a banner first.
func (p *loginPagePrompt) addTo(q *api.Prompt, hosts []string) {
	if p.notice == "" {
		return
	}
	q.Instruction = strings.TrimSpace(p.notice + "\n" + q.Instruction)
	if loginPage(p.links, hosts) != "" { // other links of a banner, such as to terms of use, need not be opened
		q.Links = append(slices.Clone(p.links), q.Links...)
	}
	p.notice, p.links, p.delay = "", nil, 0
}
