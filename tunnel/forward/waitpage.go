package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

var (
	//go:embed waitpage.html
	waitHTML string
	//go:embed waitpage.css
	waitStyle string
	//go:embed waitpage.js
	waitScript string

	waitTemplate = template.Must(template.New("wait").Parse(waitHTML))

	// waitPolicy allows the page its own style and script, by their hashes, and
	// to ask its own address again. Nothing else.
	waitPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'", sourceHash(waitStyle), sourceHash(waitScript))
)

const (
	waitPoll   = "Tunctl-Poll"    // the page's own requests carry it
	waitHeader = "Tunctl-Waiting" // our answers carry it; its value changes with what they say
	waitRetry  = 5                // seconds
)

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// waitPage is what a person at a browser is told while there is no real page.
type waitPage struct {
	Status int
	Name   string
	Reason Reason
}

// state names what the page says, so that it can tell when that has changed.
func (p *waitPage) state() string {
	r := p.Reason
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%q\n%q\n%q\n%q\n%q\n%q\n%d", p.Status, r.Kind, r.Title, r.Text, r.Facts, r.Hint, r.Tray, r.Since.Unix()))
	return hex.EncodeToString(sum[:6])
}

// waitData is what the page's template gets.
type waitData struct {
	State, Name, Kind, Title, Tray, Since, Stamp string
	Text                                         []api.Span
	Hint                                         [][]api.Span
	Output                                       string
	Facts                                        []Fact
	Commands                                     bool // the hint has some
	Continues                                    bool // without anybody's help
	Retry                                        int
	Style                                        template.CSS
	Script                                       template.JS
}

// body renders the page. Nothing of the request is in it, so no token can be.
func (p *waitPage) body(now time.Time) []byte {
	r := p.Reason
	text, output, _ := strings.Cut(api.Redact(r.Text), "\n")
	data := waitData{
		State:     p.state(),
		Name:      p.Name,
		Kind:      cmp.Or(string(r.Kind), "progress"),
		Title:     api.Redact(r.Title),
		Text:      api.Spans(text),
		Output:    output,
		Hint:      api.Clauses(api.Redact(r.Hint)),
		Commands:  strings.Contains(r.Hint, "`"),
		Tray:      r.Tray,
		Continues: r.Kind == ReasonProgress,
		Retry:     waitRetry,
		Style:     template.CSS(waitStyle), //nolint:gosec // our own file
		Script:    template.JS(waitScript), //nolint:gosec // our own file
	}
	for _, f := range r.Facts {
		data.Facts = append(data.Facts, Fact{f.Name, api.Redact(f.Value)})
	}
	if since := r.Since; !since.IsZero() {
		data.Since, data.Stamp = sayWhen(since, now), since.Format(time.RFC3339)
	}
	var b bytes.Buffer
	if err := waitTemplate.Execute(&b, data); err != nil {
		return []byte(template.HTMLEscapeString(data.Title))
	}
	return b.Bytes()
}

// sayWhen gives the time of day, with the date where that is not today's.
func sayWhen(at, now time.Time) string {
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("Monday 2 January, 15:04")
}

// write answers req with the page and ends the connection.
func (p *waitPage) write(w io.Writer, req *http.Request, now time.Time) error {
	body := p.body(now)
	resp := &http.Response{
		StatusCode:    p.Status,
		ProtoMajor:    1,
		ProtoMinor:    1,
		Request:       req,
		Close:         true,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{
			"Content-Type":            {"text/html; charset=utf-8"},
			"Content-Security-Policy": {waitPolicy},
			"Cache-Control":           {"no-store"},
			"Retry-After":             {strconv.Itoa(waitRetry)},
			"Referrer-Policy":         {"no-referrer"},
			"X-Content-Type-Options":  {"nosniff"},
			waitHeader:                {p.state()},
		},
	}
	return resp.Write(w)
}

// isNavigation reports whether a person's browser asks for a page, rather than a
// program for data: nothing else would know what to make of ours.
func isNavigation(r *http.Request) bool {
	if r == nil || r.Header.Get("Upgrade") != "" || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	if path := r.URL.Path; path == "/api" || strings.HasPrefix(path, "/api/") {
		return false
	}
	return isPoll(r) || r.Method == http.MethodGet && cmp.Or(r.Header.Get("Sec-Fetch-Mode"), "navigate") == "navigate"
}

// isPoll reports whether our own page asks how things are. It is told at once,
// never held.
func isPoll(r *http.Request) bool {
	return r != nil && r.Header.Get(waitPoll) != "" && (r.Method == http.MethodHead || r.Method == http.MethodGet)
}

// tellBrowser answers a navigation with the page that says why, and waits until it
// was taken. It reports false where a page is no answer.
func (v *visit) tellBrowser(ctx context.Context, err error) bool {
	page := v.pageFor(err)
	if page == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, speakTimeout)
	defer cancel()
	req := v.flight.opening(ctx).req
	if !isNavigation(req) || !v.mayTell(req.Host) {
		return false
	}
	_ = v.conn.SetWriteDeadline(time.Now().Add(speakTimeout))
	if err := page.write(v.conn, req, time.Now()); err != nil {
		return false
	}
	// What the client still sends goes on being read until it has hung up, so
	// that closing does not become a reset that overtakes the page.
	closeWrite(v.conn)
	select {
	case <-v.flight.done:
	case <-ctx.Done():
	}
	return true
}

// mayTell reports whether who asks by this name may read the page. All who reach a
// listener on the network may, by whatever name it has there; the names are checked for
// the sake of a target without a token.
func (v *visit) mayTell(host string) bool {
	return v.hosts.network && !v.checked || v.hosts.allow(host)
}

// pageFor returns the page for what went wrong, or nil where a page is no answer.
func (v *visit) pageFor(err error) *waitPage {
	now := v.standing()
	page := &waitPage{Status: http.StatusServiceUnavailable, Name: v.name, Reason: now.reason}
	switch {
	case errors.Is(err, errWithdrawn), errors.Is(err, api.ErrDown) && now.target == nil:
	case errors.Is(err, api.ErrDown):
		page.Reason = Reason{Title: "The connection is down", Text: "The host cannot be reached now. What runs there keeps running."}
	case now.target != nil && !now.target.HTTP:
		return nil
	default:
		page.Status = http.StatusBadGateway
		page.Reason = Reason{
			Title: cmp.Or(v.name, "The server") + " does not respond",
			Text:  "The server may still be starting, or busy. If this stays, its log says more.\n" + err.Error(),
		}
		if v.name != "" {
			page.Reason.Hint = "`tunctl logs " + v.name + "`"
			page.Reason.Tray = v.name + " ▸ " + api.MenuLog
		}
	}
	return page
}
