package desktop

import (
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"time"
)

// pageFileLife is how long a page file stays for a browser to read it.
const pageFileLife = 10 * time.Second

// openPageFile leads a browser to target through a file that only this person can
// read. It serves where no port can be listened on.
func openPageFile(ctx context.Context, target string, o OpenOptions) error {
	path, err := writePageFile(environOf(o.Env)["XDG_RUNTIME_DIR"], target)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoBrowser, err)
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(path)) }()
	if err := OpenHTML(ctx, path, o); err != nil {
		return err
	}
	select {
	case <-time.After(pageFileLife):
	case <-ctx.Done():
	}
	return nil
}

// writePageFile writes a page that moves on to target, in a folder of its own
// under dir, or under the system's temporary folder.
func writePageFile(dir, target string) (string, error) {
	folder, err := os.MkdirTemp(dir, "tunctl-open-") // 0700
	if err != nil {
		return "", fmt.Errorf("create a directory for the page: %w", err)
	}
	path := filepath.Join(folder, "open.html")
	page := `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` +
		html.EscapeString(target) + `">`
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		_ = os.RemoveAll(folder)
		return "", fmt.Errorf("write the page: %w", err)
	}
	return path, nil
}
