//go:build linux

package facts

import (
	"context"
	"os"
	"testing"
	"time"

	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/real"
	"tunctl/tunnel/forward"
)

// TestEveryWaitingPageInARealBrowser takes a picture of every waiting page.
func TestEveryWaitingPageInARealBrowser(t *testing.T) {
	if os.Getenv("TUNCTL_SCREENSHOTS") != "1" {
		t.Skip("pictures are taken by `make screenshots`")
	}
	real.Need(t, "browser")
	now := time.Now()
	for name, f := range pageFacts(now) {
		listener, err := forward.Listen(forward.ListenOptions{Name: "jupyter", HoldFor: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		listener.Withdraw(f.Reason(f.Derive(now), now.Add(-20*time.Minute), now))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- listener.Serve(ctx) }()
		desktest.PicturePage(t, "page-"+name, "http://"+listener.Addr().String()+"/lab")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
