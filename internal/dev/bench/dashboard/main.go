//go:build linux

// Command dashboard measures tunctl's page in the browser: how soon it paints, what it
// weighs, and whether it stutters with 200 jobs. The cluster is the practice cluster, the
// browser a headless Chromium; without one it says so.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
	"tunctl/internal/dev/chromium"
)

const (
	rounds = 10
	jobs   = 200

	goalPaint  = 100.0 // ms more than a page of one word: what the browser itself takes differs by machines
	goalWeight = 300.0 // kB
	goalFrame  = 50.0  // ms: what takes longer is noticed
)

func main() {
	_, missing := exec.LookPath("chromium")
	ground.Main("the dashboard is", missing, bench)
}

func bench(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	f, err := newField(ctx, program)
	if err != nil {
		return err
	}
	defer f.close()
	browser, err := chromium.Start()
	if err != nil {
		return err
	}
	defer func() { _ = browser.Close() }()
	page, err := browser.NewPage(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: dashboard")
	word := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><title>word</title><p id="link">Live`)
	}))
	defer word.Close()
	theirs, err := measurePaints(ctx, page, word.URL)
	if err != nil {
		return err
	}
	paints, err := measurePaints(ctx, page, f.link)
	if err != nil {
		return err
	}
	var weight float64
	const weigh = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((r) => !r.name.includes("/api/"))].reduce((sum, r) => sum + r.decodedBodySize, 0) / 1000`
	if err := page.Evaluate(ctx, weigh, &weight); err != nil {
		return err
	}
	frame, err := measureFrames(ctx, page)
	if err != nil {
		return err
	}
	table.Print(os.Stdout, []table.Row{
		paintRow(fmt.Sprintf("dashboard, first paint, median of %d loads", rounds), theirs.Median(paint), paints.Median(paint)),
		paintRow("… slowest", slices.Max(theirs[paint]), slices.Max(paints[paint])),
		atMost("dashboard, weight of the page and its files", "kB", weight, goalWeight),
		atMost(fmt.Sprintf("dashboard with %d jobs, longest frame while all change", jobs), "ms", frame, goalFrame),
	})
	return nil
}

func atMost(measure, unit string, ours, goal float64) table.Row {
	return table.Row{Measure: measure, Ours: ours, Unit: unit, Goal: fmt.Sprintf("≤ %.0f %s", goal, unit), Reached: ours <= goal}
}

func paintRow(measure string, theirs, ours float64) table.Row {
	return table.Row{
		Measure: measure, Peer: "a page of one word", Theirs: theirs, Ours: ours, Unit: "ms",
		Goal: fmt.Sprintf("≤ %.0f ms more", goalPaint), Reached: ours <= theirs+goalPaint,
	}
}

const paint = "paint"

// measurePaints loads a page again and again. Nothing of it is cached.
func measurePaints(ctx context.Context, page *chromium.Page, link string) (table.Samples, error) {
	if err := page.Navigate(ctx, link); err != nil {
		return nil, err
	}
	samples := table.Samples{}
	for i := range rounds + 1 {
		if err := page.Until(ctx, `document.getElementById("link")?.textContent === "Live" && performance.getEntriesByName("first-contentful-paint").length`); err != nil {
			return nil, err
		}
		var ms float64
		if err := page.Evaluate(ctx, `performance.getEntriesByName("first-contentful-paint")[0].startTime`, &ms); err != nil {
			return nil, err
		}
		if i > 0 { // the first load also started the browser's processes
			samples.Add(paint, ms)
		}
		if i < rounds {
			if err := page.Evaluate(ctx, `document.getElementById("link").textContent = "", location.reload()`, nil); err != nil {
				return nil, err
			}
		}
	}
	return samples, nil
}

// measureFrames draws everything again, with every job changed, ten times a second, and
// returns the longest time between two frames, in ms.
func measureFrames(ctx context.Context, page *chromium.Page) (longest float64, err error) {
	// A filter opens the groups of jobs.
	if err := page.Evaluate(ctx, `location.hash = "jobs", document.getElementById("jobs-filter").value = "sweep"`, nil); err != nil {
		return 0, err
	}
	if err := page.Until(ctx, fmt.Sprintf(`document.querySelectorAll("#jobs-rows tr").length >= %d`, jobs)); err != nil {
		return 0, err
	}
	const frames = `import("/model.js").then(({ model, changed }) => new Promise((done) => {
		let longest = 0, last = performance.now(), count = 0;
		const change = setInterval(() => {
			count++;
			for (const { jobs } of model.jobs) for (const job of jobs) job.hint = "waiting for free nodes, look " + count;
			changed();
		}, 100);
		const frame = (now) => {
			longest = Math.max(longest, now - last);
			last = now;
			if (count < 30) return requestAnimationFrame(frame);
			clearInterval(change);
			done(longest);
		};
		requestAnimationFrame((now) => { last = now; frame(now); });
	}))`
	return longest, page.Evaluate(ctx, frames, &longest)
}
