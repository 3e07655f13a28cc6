package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"tunctl/internal/dev/chromium"
)

// tab is the window of a headless browser.
type tab struct {
	t    *testing.T
	page *chromium.Page
}

func openTab(t *testing.T) *tab {
	t.Helper()
	program, err := chromium.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := program.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &tab{t: t}
	ctx, cancel := b.within(patience)
	defer cancel()
	if b.page, err = program.NewPage(ctx); err == nil {
		err = b.page.Size(ctx, 1000, 700)
	}
	if err == nil { // a notebook's question before it is left has nobody to answer it
		err = b.page.Call(ctx, "Page.disable", nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) within(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.t.Context(), limit)
}

func (b *tab) navigate(address string) {
	b.t.Helper()
	ctx, cancel := b.within(patience)
	defer cancel()
	if err := b.page.Navigate(ctx, address); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate runs an expression in the page, whichever page that is by now.
func (b *tab) evaluate(expression string, value any) error {
	ctx, cancel := b.within(patience)
	defer cancel()
	return b.page.Evaluate(ctx, expression, value)
}

// until waits until a condition holds.
func (b *tab) until(what, condition string) {
	b.t.Helper()
	if err := b.await(condition, patience); err != nil {
		b.never(what, err)
	}
}

// untilLoaded opens a page whose scripts give up if one of them does not load in time, as
// those of a notebook do after 30 s: a person loads it again.
func (b *tab) untilLoaded(address, what, condition string) {
	b.t.Helper()
	var err error
	for range 3 {
		b.navigate(address)
		if err = b.await(condition, 40*time.Second); err == nil {
			return
		}
		b.t.Logf("not yet: %s (%v)", what, err)
	}
	b.never(what, err)
}

func (b *tab) await(condition string, limit time.Duration) error {
	ctx, cancel := b.within(limit)
	defer cancel()
	return b.page.Until(ctx, condition)
}

// never fails the test, with a picture and the files of the page that did not come or were slow.
func (b *tab) never(what string, why error) {
	b.t.Helper()
	b.picture(artifact(b.t, "never.png"))
	var files string
	_ = b.evaluate(`document.readyState + "\n" + performance.getEntriesByType("resource")
		.filter(r => r.responseStatus != 200 || r.duration > 5000)
		.map(r => [r.responseStatus, Math.round(r.duration) + " ms", new URL(r.name).pathname].join(" ")).join("\n")`, &files)
	b.t.Fatalf("never: %s (%v)\n%s", what, why, files)
}

func (b *tab) text(expression string) (text string) {
	b.t.Helper()
	if err := b.evaluate(expression, &text); err != nil {
		b.t.Fatal(err)
	}
	return text
}

// address is where the tab is, without a token that it was opened with.
func (b *tab) address() string {
	b.t.Helper()
	return b.text(`location.origin + location.pathname`)
}

// picture keeps what the tab shows.
func (b *tab) picture(file string) {
	b.t.Helper()
	ctx, cancel := b.within(patience)
	defer cancel()
	png, err := b.page.Picture(ctx)
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}
