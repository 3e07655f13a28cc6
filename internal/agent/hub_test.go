package agent

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
	h := newHub()
	slow, quick := h.subscribe("", api.AnswersNone), h.subscribe("", api.AnswersNone)
	for range subscriberBuffer + 1 {
		h.publish(api.Event{Type: api.EventNotice})
		<-quick.events
	}
	n := 0
	for range slow.events {
		n++
	}
	if n != subscriberBuffer {
		t.Errorf("the slow watcher got %d events before it was dropped, want %d", n, subscriberBuffer)
	}
	h.publish(api.Event{Type: api.EventNotice})
	if _, ok := <-quick.events; !ok {
		t.Error("the quick watcher was dropped too")
	}
}

func TestAPromptGoesToATerminalBeforeADesktop(t *testing.T) {
	h := newHub()
	desktop, terminal, plain := h.subscribe("", api.AnswersDesktop), h.subscribe("", api.AnswersTerminal), h.subscribe("", api.AnswersNone)
	if len(h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{}})) == 0 {
		t.Fatal("nobody was asked")
	}
	if len(terminal.events) != 1 || len(desktop.events) != 0 || len(plain.events) != 0 {
		t.Errorf("asked: terminal %d, desktop %d, plain %d", len(terminal.events), len(desktop.events), len(plain.events))
	}
	h.unsubscribe(terminal)
	if len(h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{}})) == 0 || len(desktop.events) != 1 {
		t.Error("the desktop was not asked")
	}
}

func TestAPromptGoesOnlyToTheClientThatCausedIt(t *testing.T) {
	h := newHub()
	mine, other, unnamed := h.subscribe("mine", api.AnswersTerminal), h.subscribe("other", api.AnswersTerminal), h.subscribe("", api.AnswersTerminal)
	tray, script := h.subscribe("tray", api.AnswersDesktop), h.subscribe("script", api.AnswersNone)
	for _, tt := range []struct {
		client string
		want   *subscriber
	}{
		{"mine", mine},
		{"tray", tray},
		{"script", tray}, // it cannot ask anybody: a window can, another terminal must not
		{"left", tray},
	} {
		asked := h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{Client: tt.client}})
		if len(asked) != 1 || asked[0] != tt.want || len(tt.want.events) != 1 {
			t.Errorf("%s: asked %+v", tt.client, asked)
			continue
		}
		<-tt.want.events
	}
	h.unsubscribe(tray)
	for _, client := range []string{"script", "left", "tray"} {
		if asked := h.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &api.Prompt{Client: client}}); len(asked) != 0 {
			t.Errorf("%s: asked %+v though it has no terminal", client, asked)
		}
	}
	for name, w := range map[string]*subscriber{"mine": mine, "other": other, "unnamed": unnamed, "script": script} {
		if len(w.events) != 0 {
			t.Errorf("%s got %+v", name, <-w.events)
		}
	}
}

func TestAPromptDoesNotOutliveTheTerminalThatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		terminal, other := h.subscribe("mine", api.AnswersTerminal), h.subscribe("other", api.AnswersTerminal)
		tray := h.subscribe("", api.AnswersDesktop)
		ended := make(chan api.Answer, 1)
		go func() {
			a, err := newPrompts(h).Prompt(t.Context(), api.Prompt{Client: "mine"}, func() {})
			if err != nil {
				t.Error(err)
			}
			ended <- a
		}()
		asked := <-terminal.events
		h.unsubscribe(terminal)
		if a := <-ended; !a.Cancelled {
			t.Errorf("answer = %+v, want none", a)
		}
		if e := <-tray.events; e.Type != api.EventPromptClosed {
			t.Errorf("the desktop is asked after a Ctrl-C: %+v", e)
		}
		if closed := <-other.events; closed.Type != api.EventPromptClosed || closed.Prompt.ID != asked.Prompt.ID {
			t.Errorf("event = %+v, want the prompt's end", closed)
		}
	})
}

func TestAnAnswerCountsThoughWhoGaveItHasLeft(t *testing.T) {
	for range 100 { // where both are there, either may be seen first
		h := newHub()
		terminal, p := h.subscribe("mine", api.AnswersTerminal), newPrompts(h)
		a, err := p.Prompt(t.Context(), api.Prompt{Client: "mine"}, func() {
			if err := p.answer((<-terminal.events).Prompt.ID, api.Answer{Text: "123"}); err != nil {
				t.Error(err)
			}
			h.unsubscribe(terminal)
		})
		if err != nil || a.Text != "123" {
			t.Fatalf("answer = %+v, %v", a, err)
		}
	}
}

func TestWithNobodyThereAPromptFailsAtOnce(t *testing.T) {
	p := newPrompts(newHub())
	if _, err := p.Prompt(t.Context(), api.Prompt{Host: "narval"}, func() { t.Error("somebody is said to be asked") }); !errors.Is(err, failure.ErrNobody) {
		t.Errorf("err = %v, want ErrNobody", err)
	}
}

func TestTheFirstAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w := h.subscribe("", api.AnswersTerminal)
		p := newPrompts(h)
		got := make(chan api.Answer, 1)
		go func() {
			a, err := p.Prompt(t.Context(), api.Prompt{Host: "narval", Text: "Code:"}, func() {})
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		asked := <-w.events
		if err := p.answer(asked.Prompt.ID, api.Answer{Text: "123"}); err != nil {
			t.Fatal(err)
		}
		if err := p.answer(asked.Prompt.ID, api.Answer{Text: "456"}); err == nil {
			t.Error("a second answer was taken")
		}
		if a := <-got; a.Text != "123" {
			t.Errorf("answer = %q", a.Text)
		}
		if closed := <-w.events; closed.Type != api.EventPromptClosed || closed.Prompt.ID != asked.Prompt.ID {
			t.Errorf("event = %+v, want the prompt's end", closed)
		}
	})
}

func TestAPromptEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		h.subscribe("", api.AnswersTerminal)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := newPrompts(h).Prompt(ctx, api.Prompt{}, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	})
}
