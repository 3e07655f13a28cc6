package tunnel

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

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
