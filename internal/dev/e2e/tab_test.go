package e2e

import (
	"context"
	"os"
	"testing"

	"tunctl/internal/dev/chromium"
)

// tab is the window of a headless browser.
type tab struct {
	t       *testing.T
	browser *chromium.Browser
	page    *chromium.Page
}

func openTab(t *testing.T) *tab {
	t.Helper()
	b, err := chromium.Start("--window-size=1000,700")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	page, err := b.NewPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &tab{t, b, page}
}

// call sends a command of the debugging protocol.
func (b *tab) call(method string, params map[string]any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if err := b.page.Call(ctx, method, params, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) navigate(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if err := b.page.Navigate(ctx, address); err != nil {
		b.t.Fatalf("navigate: %v", err)
	}
}

// evaluate runs an expression in the page, whichever page that is by now.
func (b *tab) evaluate(expression string, value any) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	return b.page.Evaluate(ctx, expression, value)
}

// until waits until a condition holds.
func (b *tab) until(what, condition string) {
	b.t.Helper()
	if err := b.await(condition); err != nil {
		b.never(what, err)
	}
}

// untilLoaded opens a page whose scripts give up if one of them does not load in time, as
// those of a notebook do after 30 s: the user loads it again.
func (b *tab) untilLoaded(address, what, condition string) {
	b.t.Helper()
	var err error
	for range 9 {
		b.navigate("about:blank") // another fragment alone loads nothing
		if err = b.page.Navigate(b.t.Context(), address); err == nil {
			err = b.await(condition)
		}
		if err == nil {
			return
		}
		b.t.Logf("not yet: %s (%v); what did not load: %q", what, err, b.page.Lost())
	}
	b.never(what, err)
}

func (b *tab) await(condition string) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	return b.page.Until(ctx, condition)
}

// never fails the test, with a picture and the files of the page that did not come or were slow.
func (b *tab) never(what string, why error) {
	b.t.Helper()
	b.t.Errorf("never: %s (%v)", what, why)
	b.picture(artifact(b.t, "never.png"))
	var files string
	_ = b.evaluate(`document.readyState + "\n" + performance.getEntriesByType("resource")
		.filter(r => r.responseStatus != 200 || r.duration > 5000)
		.map(r => [r.responseStatus, Math.round(r.duration) + " ms", new URL(r.name).pathname].join(" ")).join("\n")`, &files)
	b.t.Fatalf("%s\nwhat did not load: %q", files, b.page.Lost())
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
	if !pictures && !b.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	png, err := b.page.Picture(ctx)
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}
