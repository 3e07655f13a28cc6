package tray

import (
	"bytes"
	"context"
	_ "embed" // the page
	"fmt"
	"html/template"
	"strings"
	"time"

	"tunctl/internal/api"
)

//go:embed details.html
var detailsHTML string

var detailsTemplate = template.Must(template.New("details").Funcs(template.FuncMap{"clauses": api.Clauses}).Parse(detailsHTML))

// detailsPage says what went wrong, with more room than a menu or a notification has.
type detailsPage struct {
	Title  string
	Text   string
	Output string // of a program
	Hint   string // what to do in a terminal
	Tray   string // what to do in the tray menu
	When   string
}

// troublePage says what went wrong with a session.
func troublePage(s api.Session, now time.Time) detailsPage {
	text, output, _ := strings.Cut(s.Cause, "\n")
	return detailsPage{
		Title: s.Name + " failed", Text: asSentence(text, s.Name, s.Host), Output: output,
		Hint: s.Hint, Tray: s.Name + " ▸ " + startTitle(s, now), When: clock(s.Since, now),
	}
}

// showPage shows a page in the browser.
func (c *companion) showPage(p detailsPage) func(ctx context.Context) error {
	p.Text, p.Output, p.Hint = api.Redact(p.Text), api.Redact(p.Output), api.Redact(p.Hint)
	var b bytes.Buffer
	if err := detailsTemplate.Execute(&b, p); err != nil {
		return func(context.Context) error { return fmt.Errorf("write the page: %w", err) }
	}
	return c.showFile("details.html", b.Bytes())
}
