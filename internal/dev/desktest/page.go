//go:build unix

package desktest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"tunctl/internal/dev/chromium"
	"tunctl/internal/dev/wait"
)

// PicturePage keeps pictures of a page, light, dark and on a phone, in the folder that
// TUNCTL_ARTIFACTS names, and looks for barriers with axe-core.
func PicturePage(t testing.TB, name, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	b, err := chromium.Start()
	must(err)
	defer func() { must(b.Close()) }()
	page, err := b.NewPage(ctx)
	must(err)
	must(page.Navigate(ctx, address))
	must(page.Until(ctx, `document.readyState === "complete"`))
	for _, look := range []struct {
		name, scheme  string
		width, height int
	}{{"light", "light", 800, 620}, {"dark", "dark", 800, 620}, {"phone", "light", 390, 760}} {
		must(page.Size(ctx, look.width, look.height))
		must(page.ColorScheme(ctx, look.scheme))
		png, err := page.Picture(ctx)
		must(err)
		must(os.WriteFile(filepath.Join(os.Getenv("TUNCTL_ARTIFACTS"), name+"-"+look.name+".png"), png, 0o600)) //nolint:gosec // the folder is the tester's choice
		barriers, err := page.Barriers(ctx)
		must(err)
		for _, barrier := range barriers {
			t.Errorf("%s, %s: %s", name, look.name, barrier)
		}
	}
}
