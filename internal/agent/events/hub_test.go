package events

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

func TestASlowWatcherIsDroppedAndBlocksNobody(t *testing.T) {
	h := NewHub()
	slow, quick := h.Subscribe("", api.AnswersNone), h.Subscribe("", api.AnswersNone)
	for range subscriberBuffer + 1 {
		h.Publish(api.Event{Type: api.EventNotice})
		<-quick.C
	}
	n := 0
	for range slow.C {
		n++
	}
	if n != subscriberBuffer {
		t.Errorf("the slow watcher got %d events before it was dropped, want %d", n, subscriberBuffer)
	}
	h.Publish(api.Event{Type: api.EventNotice})
	if _, ok := <-quick.C; !ok {
		t.Error("the quick watcher was dropped too")
	}
}

func TestAPromptGoesToATerminalBeforeADesktop(t *testing.T) {
	h := NewHub()
	terminal, plain := h.Subscribe("", api.AnswersTerminal), h.Subscribe("", api.AnswersNone)
	if h.HasDesktop() {
		t.Error("a terminal passes for a desktop")
	}
	desktop := h.Subscribe("", api.AnswersDesktop)
	if !h.HasDesktop() {
		t.Error("the desktop is not seen")
	}
	if len(h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{}})) == 0 {
		t.Fatal("nobody was asked")
	}
	if len(terminal.C) != 1 || len(desktop.C) != 0 || len(plain.C) != 0 {
		t.Errorf("asked: terminal %d, desktop %d, plain %d", len(terminal.C), len(desktop.C), len(plain.C))
	}
	h.Unsubscribe(terminal)
	if len(h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{}})) == 0 || len(desktop.C) != 1 {
		t.Error("the desktop was not asked")
	}
}

func TestAPromptGoesOnlyToTheClientThatCausedIt(t *testing.T) {
	h := NewHub()
	mine, other, unnamed := h.Subscribe("mine", api.AnswersTerminal), h.Subscribe("other", api.AnswersTerminal), h.Subscribe("", api.AnswersTerminal)
	tray, script := h.Subscribe("tray", api.AnswersDesktop), h.Subscribe("script", api.AnswersNone)
	for _, tt := range []struct {
		client string
		want   *Subscriber
	}{
		{"mine", mine},
		{"tray", tray},
		{"script", tray}, // it cannot ask anybody: a window can, another terminal must not
		{"left", tray},
	} {
		asked := h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{Client: tt.client}})
		if len(asked) != 1 || asked[0] != tt.want || len(tt.want.C) != 1 {
			t.Errorf("%s: asked %+v", tt.client, asked)
			continue
		}
		<-tt.want.C
	}
	h.Unsubscribe(tray)
	for _, client := range []string{"script", "left", "tray"} {
		if asked := h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{Client: client}}); len(asked) != 0 {
			t.Errorf("%s: asked %+v though it has no terminal", client, asked)
		}
	}
	for name, w := range map[string]*Subscriber{"mine": mine, "other": other, "unnamed": unnamed, "script": script} {
		if len(w.C) != 0 {
			t.Errorf("%s got %+v", name, <-w.C)
		}
	}
}

func TestAPromptDoesNotOutliveTheTerminalThatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		terminal, other := h.Subscribe("mine", api.AnswersTerminal), h.Subscribe("other", api.AnswersTerminal)
		tray := h.Subscribe("", api.AnswersDesktop)
		ended := make(chan api.Answer, 1)
		go func() {
			a, err := NewPrompts(h).Prompt(t.Context(), api.Prompt{Client: "mine"}, func() {})
			if err != nil {
				t.Error(err)
			}
			ended <- a
		}()
		asked := <-terminal.C
		h.Unsubscribe(terminal)
		if a := <-ended; !a.Cancelled {
			t.Errorf("answer = %+v, want none", a)
		}
		if e := <-tray.C; e.Type != api.EventPromptClosed {
			t.Errorf("the desktop is asked after a Ctrl-C: %+v", e)
		}
		if closed := <-other.C; closed.Type != api.EventPromptClosed || closed.Prompt.ID != asked.Prompt.ID {
			t.Errorf("event = %+v, want the prompt's end", closed)
		}
	})
}

func TestAnAnswerCountsThoughWhoGaveItHasLeft(t *testing.T) {
	for range 100 { // where both are there, either may be seen first
		h := NewHub()
		terminal, p := h.Subscribe("mine", api.AnswersTerminal), NewPrompts(h)
		a, err := p.Prompt(t.Context(), api.Prompt{Client: "mine"}, func() {
			if err := p.Answer((<-terminal.C).Prompt.ID, api.Answer{Text: "123"}); err != nil {
				t.Error(err)
			}
			h.Unsubscribe(terminal)
		})
		if err != nil || a.Text != "123" {
			t.Fatalf("answer = %+v, %v", a, err)
		}
	}
}

func TestWithNobodyThereAPromptFailsAtOnce(t *testing.T) {
	p := NewPrompts(NewHub())
	if _, err := p.Prompt(t.Context(), api.Prompt{Host: "narval"}, func() { t.Error("somebody is said to be asked") }); !errors.Is(err, failure.ErrNobody) {
		t.Errorf("err = %v, want ErrNobody", err)
	}
}

func TestTheFirstAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		w := h.Subscribe("", api.AnswersTerminal)
		p := NewPrompts(h)
		got := make(chan api.Answer, 1)
		go func() {
			a, err := p.Prompt(t.Context(), api.Prompt{Host: "narval", Text: "Code:"}, func() {})
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		asked := <-w.C
		if err := p.Answer(asked.Prompt.ID, api.Answer{Text: "123"}); err != nil {
			t.Fatal(err)
		}
		if err := p.Answer(asked.Prompt.ID, api.Answer{Text: "456"}); err == nil {
			t.Error("a second answer was taken")
		}
		if a := <-got; a.Text != "123" {
			t.Errorf("answer = %q", a.Text)
		}
		if closed := <-w.C; closed.Type != api.EventPromptClosed || closed.Prompt.ID != asked.Prompt.ID {
			t.Errorf("event = %+v, want the prompt's end", closed)
		}
	})
}

func TestAPromptEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		h.Subscribe("", api.AnswersTerminal)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := NewPrompts(h).Prompt(ctx, api.Prompt{}, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	})
}
