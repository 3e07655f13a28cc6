package tray

import (
	"bytes"
	"context"
	_ "embed" // the pages
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
)

var (
	//go:embed details.html
	detailsHTML string
	//go:embed help.html
	helpPage []byte
)

var detailsTemplate = template.Must(template.New("details").Funcs(template.FuncMap{"clauses": api.Clauses}).Parse(detailsHTML))

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

// showPage shows a failure in the browser.
func (c *controller) showPage(p detailsPage) func(ctx context.Context) error {
	p.Text, p.Output, p.Hint = api.Redact(p.Text), api.Redact(p.Output), api.Redact(p.Hint)
	var b bytes.Buffer
	if err := detailsTemplate.Execute(&b, p); err != nil {
		return func(context.Context) error { return fmt.Errorf("write the page: %w", err) }
	}
	return c.showFile("details.html", b.Bytes())
}

// showFile writes a page to a folder of this tray and shows it in the browser.
func (c *controller) showFile(name string, page []byte) func(ctx context.Context) error {
	if c.pages == "" {
		dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "tunctl-pages-")
		if err != nil {
			return func(context.Context) error { return fmt.Errorf("create a directory for the page: %w", err) }
		}
		c.pages = dir
	}
	path := filepath.Join(c.pages, name)
	return func(ctx context.Context) error {
		if err := os.WriteFile(path, page, 0o600); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
		return c.desk.show(ctx, path)
	}
}
