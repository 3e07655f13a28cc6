package tray

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
)

//go:embed *.html
var pageFiles embed.FS

// pages are a page of each file, and their common head.
var pages = template.Must(template.New("").Funcs(template.FuncMap{"clauses": api.Clauses}).ParseFS(pageFiles, "*.html"))

// detailsPage describes a failure, with more room than a menu or a notification has.
type detailsPage struct {
	Title  string
	Text   string
	Output string // of a program
	Hint   string // what to do in a terminal
	Tray   string // what to do in the tray menu
	When   string
}

// troublePage describes the failure of a session.
func troublePage(s api.Session, now time.Time) detailsPage {
	text, output, _ := strings.Cut(s.Cause, "\n")
	return detailsPage{
		Title: s.Name + " failed", Text: words.Sentence(text, s.Name, s.Host), Output: output,
		Hint: s.Hint, Tray: s.Name + " ▸ " + api.MenuStart, When: api.ClockText(s.Since, now),
	}
}

// showDetails shows a failure in the browser.
func (c *controller) showDetails(p detailsPage) func(ctx context.Context) error {
	p.Text, p.Output, p.Hint = api.Redact(p.Text), api.Redact(p.Output), api.Redact(p.Hint)
	return c.showPage("details.html", p)
}

// showPage writes a page to a folder of this tray and shows it in the browser.
func (c *controller) showPage(name string, data any) func(ctx context.Context) error {
	var err error
	if c.pages == "" {
		c.pages, err = os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "tunctl-pages-")
	}
	path := filepath.Join(c.pages, name)
	return func(ctx context.Context) error {
		var page bytes.Buffer
		err := cmp.Or(err, pages.ExecuteTemplate(&page, name, data))
		if err == nil {
			err = os.WriteFile(path, page.Bytes(), 0o600)
		}
		if err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
		return c.desk.show(ctx, path)
	}
}
