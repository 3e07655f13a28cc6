package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/transfer"
)

// progressEvery is how often the line is redrawn; the rate is over the last seconds.
const (
	progressEvery  = 200 * time.Millisecond
	progressWindow = 25
)

// showProgress draws a copy's progress until done is called, which prints a summary.
func showProgress(ctx context.Context, t *term.Terminal, p *transfer.Progress) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(over)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		m := meter{}
		for {
			select {
			case <-tick.C:
				t.Draw(m.line(p.Counts(), time.Now()))
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-over
		t.Draw("")
		c := p.Counts()
		if c.Files > 0 {
			t.Say("%s", summary(c, time.Since(start)))
		}
	}
}

// summary is the result of a copy.
func summary(c transfer.Counts, took time.Duration) string {
	text := fmt.Sprintf("%d files, %s in %s", c.Files, bytesText(c.Copied), stopwatch(took))
	if c.Files == 1 {
		text = strings.Replace(text, "files", "file", 1)
	}
	if c.Skipped > 0 {
		text += fmt.Sprintf(", %s skipped", bytesText(c.Skipped))
	}
	return text
}

// meter turns counts into a rate.
type meter struct{ samples []sample }

type sample struct {
	at    time.Time
	bytes int64
}

// line is the progress in one line: a bar, how much, how fast, and the time left.
func (m *meter) line(c transfer.Counts, now time.Time) string {
	m.samples = append(m.samples, sample{now, c.Copied})
	if len(m.samples) > progressWindow {
		m.samples = m.samples[1:]
	}
	rate := 0.0
	first := m.samples[0]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		rate = float64(c.Copied-first.bytes) / d
	}
	done := c.Copied + c.Skipped
	text := fmt.Sprintf("%s %s of %s, %d of %d files, %s/s", progressBar(done, c.Total), bytesText(done), bytesText(c.Total), c.Files, c.Of, bytesText(int64(rate)))
	switch left := c.Total - done; {
	case !c.Listed:
		text += ", still listing"
	case rate > 0 && left > 0:
		text += ", " + api.DurationText(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
	}
	return text
}

const barWidth = 20

func progressBar(done, total int64) string {
	filled := 0
	if total > 0 {
		filled = int(min(barWidth, done*barWidth/total))
	}
	return "▕" + strings.Repeat("█", filled) + strings.Repeat(" ", barWidth-filled) + "▏"
}
