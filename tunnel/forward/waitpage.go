package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
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

	waitTemplate = template.Must(template.New("wait").Funcs(template.FuncMap{
		"redact": api.Redact, "spans": api.Spans, "clauses": api.Clauses, "clock": api.ClockText, "duration": api.DurationText,
	}).Parse(waitHTML))

	// waitPolicy allows the page its own style and script, by their hashes, and
	// requests to its own address. Nothing else.
	waitPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'", sourceHash(waitStyle), sourceHash(waitScript))
)

const (
	waitPoll   = "Tunctl-Poll"    // set in the page's own requests
	waitHeader = "Tunctl-Waiting" // set in our answers; its value changes with the page
	waitRetry  = 5                // seconds
)

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// waitPage is what a browser shows while there is no real page.
type waitPage struct {
	Status int
	Name   string
	Link   string // to the dashboard
	Reason Reason
}

// State changes with what the page says, so that the page can notice a change.
func (p *waitPage) State() string {
	r := p.Reason
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%q\n%q\n%q\n%q\n%v\n%q\n%q\n%d", p.Status, r.Kind, r.Title, r.Text, r.Facts, r.Steps, r.Hint, r.Tray, r.Since.Unix()))
	return fmt.Sprintf("%x", sum[:6])
}

// waitData is the data of the page's template.
type waitData struct {
	*waitPage
	Text, Output string // of the reason
	Now          time.Time
	Retry        int
	Style        template.CSS
	Script       template.JS
}

// body renders the page. It contains nothing of the request, so it cannot contain a
// token.
func (p *waitPage) body(now time.Time) []byte {
	text, output, _ := strings.Cut(api.Redact(p.Reason.Text), "\n")
	data := waitData{
		waitPage: p, Text: text, Output: output, Now: now, Retry: waitRetry,
		Style:  template.CSS(waitStyle), //nolint:gosec // our own file
		Script: template.JS(waitScript), //nolint:gosec // our own file
	}
	var b bytes.Buffer
	_ = waitTemplate.Execute(&b, data) // the tests have it execute all of it
	return b.Bytes()
}

// write answers req with the page.
func (p *waitPage) write(w io.Writer, req *http.Request, now time.Time) error {
	return writeResponse(w, req, p.Status, p.body(now), http.Header{
		"Content-Type":            {"text/html; charset=utf-8"},
		"Content-Security-Policy": {waitPolicy},
		"Retry-After":             {strconv.Itoa(waitRetry)},
		"Referrer-Policy":         {"no-referrer"},
		waitHeader:                {p.State()},
	})
}

// writeResponse writes the last response on a connection. No cache may keep it. req is nil
// if it could not be read.
func writeResponse(w io.Writer, req *http.Request, status int, body []byte, header http.Header) error {
	header["Cache-Control"] = []string{"no-store"}
	header["X-Content-Type-Options"] = []string{"nosniff"}
	resp := &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: req, Header: header, Close: true,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
	return resp.Write(w)
}

// isNavigation reports whether a browser requests a page for the user to see. A program
// that requests data could not use ours.
func isNavigation(r *http.Request) bool {
	if r == nil || r.Header.Get("Upgrade") != "" || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	if path := r.URL.Path; path == "/api" || strings.HasPrefix(path, "/api/") {
		return false
	}
	return isPoll(r) || r.Method == http.MethodGet && cmp.Or(r.Header.Get("Sec-Fetch-Mode"), "navigate") == "navigate"
}

// isPoll reports whether it is our own page that polls. It gets its answer at once.
func isPoll(r *http.Request) bool {
	return r != nil && r.Header.Get(waitPoll) != "" && r.Method == http.MethodGet
}

// sendWaitPage answers a navigation with the page for err, and waits until the client has
// read it. It reports false if the client expects something else than a page.
func (c *clientConn) sendWaitPage(ctx context.Context, err error) bool {
	page := c.waitPageFor(err)
	if page == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := c.preread.request(ctx).http
	if !isNavigation(req) || !c.mayReadPage(req.Host) {
		return false
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(requestTimeout))
	if err := page.write(c.conn, req, time.Now()); err != nil {
		return false
	}
	// The preread continues until the client has closed, so that our close does not
	// become a reset that overtakes the page.
	closeWrite(c.conn)
	select {
	case <-c.preread.done:
	case <-ctx.Done():
	}
	return true
}

// mayReadPage reports whether a request for this host name may get the page. On a
// listener that is open to the network any name may, unless the target has no token.
func (c *clientConn) mayReadPage(host string) bool {
	return c.hosts.network && !c.checked || c.hosts.allow(host)
}

// waitPageFor returns the page for err, or nil if there is none: clients of the target do
// not speak HTTP.
func (c *clientConn) waitPageFor(err error) *waitPage {
	state := c.current()
	page := &waitPage{Status: http.StatusServiceUnavailable, Name: c.o.Name, Reason: state.reason}
	if c.o.Dashboard != nil {
		page.Link = c.o.Dashboard()
	}
	switch {
	case errors.Is(err, errNoTarget), errors.Is(err, api.ErrDown) && state.target == nil:
	case errors.Is(err, api.ErrDown):
		page.Reason = Reason{Title: "The connection is down", Text: "The host cannot be reached now. What runs there keeps running."}
	case state.target != nil && !state.target.HTTP:
		return nil
	default:
		page.Status = http.StatusBadGateway
		page.Reason = Reason{
			Title: cmp.Or(c.o.Name, "The server") + " does not respond",
			Text:  "The server may still be starting, or busy. If this stays, its log says more.\n" + err.Error(),
		}
		if c.o.Name != "" {
			page.Reason.Hint = "`tunctl logs " + c.o.Name + "`"
			page.Reason.Tray = c.o.Name + " ▸ " + api.MenuLog
		}
	}
	return page
}
