package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel"
)

func TestASlowWatcherIsDroppedAndBlocksNobody(t *testing.T) {
	h := newHub()
	slow, quick := h.watch(api.AnswersNone), h.watch(api.AnswersNone)
	for range hubBuffer + 1 {
		h.publish(api.Event{Type: api.EventNotice})
		<-quick.events
	}
	n := 0
	for range slow.events {
		n++
	}
	if n != hubBuffer {
		t.Errorf("the slow watcher got %d events before it was dropped, want %d", n, hubBuffer)
	}
	h.publish(api.Event{Type: api.EventNotice})
	if _, ok := <-quick.events; !ok {
		t.Error("the quick watcher was dropped too")
	}
}

func TestAPromptGoesToATerminalBeforeADesktop(t *testing.T) {
	h := newHub()
	desktop, terminal, plain := h.watch(api.AnswersDesktop), h.watch(api.AnswersTerminal), h.watch(api.AnswersNone)
	if !h.ask(api.Event{Type: api.EventPrompt}) {
		t.Fatal("nobody was asked")
	}
	if len(terminal.events) != 1 || len(desktop.events) != 0 || len(plain.events) != 0 {
		t.Errorf("asked: terminal %d, desktop %d, plain %d", len(terminal.events), len(desktop.events), len(plain.events))
	}
	h.leave(terminal)
	if !h.ask(api.Event{Type: api.EventPrompt}) || len(desktop.events) != 1 {
		t.Error("the desktop was not asked")
	}
}

func TestWithNobodyThereAPromptFailsAtOnce(t *testing.T) {
	p := newPrompts(newHub())
	if _, err := p.Prompt(t.Context(), api.Prompt{Host: "narval"}); !errors.Is(err, tunnel.ErrNobody) {
		t.Errorf("err = %v, want ErrNobody", err)
	}
}

func TestTheFirstAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w := h.watch(api.AnswersTerminal)
		p := newPrompts(h)
		got := make(chan api.Answer, 1)
		go func() {
			a, err := p.Prompt(t.Context(), api.Prompt{Host: "narval", Text: "Code:"})
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
		h.watch(api.AnswersTerminal)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := newPrompts(h).Prompt(ctx, api.Prompt{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	})
}
