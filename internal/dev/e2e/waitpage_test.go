package e2e

import (
	"context"
	"testing"
	"time"

	"tunctl/internal/dev/real"
	"tunctl/tunnel/forward"
)

func TestTheWaitingPageCopiesCommandsAndTellsWhenNobodyServesIt(t *testing.T) {
	real.Need(t, "browser")
	t.Parallel()
	f, err := forward.Listen(forward.ListenOptions{Name: "jupyter", HoldFor: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	f.Withdraw(forward.Reason{Title: "Connecting to narval", Since: time.Now()})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx) }()
	shows := func(selector string) string {
		return `getComputedStyle(document.querySelector("` + selector + `")).display !== "none"`
	}

	tab := openTab(t)
	tab.navigate("http://" + f.Addr().String() + "/lab")
	tab.until("the page says that it reconnects", `document.querySelector(".stay").textContent === "This page reconnects automatically."`)
	tab.until("the duration goes on", `document.querySelector(".lasts").textContent !== "0 s"`)

	// What changes is shown in place, under the page's own strict policy.
	f.Withdraw(forward.Reason{Kind: forward.ReasonAttention, Title: "Log in to continue", Hint: "run `tunctl login narval`"})
	tab.until("the new words are shown", `document.querySelector("h1").textContent === "Log in to continue"`)
	tab.until("the command has a button", shows(".copy"))
	tab.until("the button is pressed", `(window.copied = undefined, navigator.clipboard.writeText = async (text) => { window.copied = text; }, document.querySelector(".copy").click(), true)`)
	tab.until("the command is copied", `window.copied === "tunctl login narval" && document.querySelector(".copy").textContent === "Copied"`)

	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	tab.until("the page says that nobody serves it", shows(".gone")+" && !("+shows(".stay")+")")
	tab.picture(artifact(t, "page-gone.png"))
}
