package agent_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/lab"
)

// user is somebody who answers what assistants ask.
type person struct {
	asked chan string // the texts of the questions
}

// newPerson watches as a desktop or a terminal does, and answers every question.
func (w *world) newPerson(answers api.Answers, says string) *person {
	w.t.Helper()
	c := client.New(w.paths)
	p := &person{asked: make(chan string, 10)}
	w.onPrompt(c, answers, func(ctx context.Context, q *api.Prompt) {
		p.asked <- q.Text
		if err := c.Answer(ctx, q.ID, api.Answer{Text: says}); err != nil && ctx.Err() == nil { // the test may end before the response
			w.t.Error(err)
		}
	})
	return p
}

// onPrompt has a client watch for questions until the end of the test.
func (w *world) onPrompt(c *client.Client, answers api.Answers, see func(context.Context, *api.Prompt)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	watching, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ready := sync.OnceFunc(func() { close(watching) })
		_ = c.Watch(ctx, answers, "", func(e api.Event) { // it ends by our cancel
			switch e.Type {
			case api.EventStatus:
				ready()
			case api.EventPrompt:
				see(ctx, e.Prompt)
			}
		})
	}()
	<-watching
	w.t.Cleanup(func() { cancel(); <-done })
}

// assistantWorld has a job of four node-hours, and assistants that may start so many.
func assistantWorld(t *testing.T, nodeHours string) *world {
	w := newWorld(t)
	script := strings.Replace(lab.JobScript(lab.Slurm), "\n", "\n#SBATCH --nodes=2 --time=02:00:00\n", 1)
	w.script(script)
	w.write(w.paths.Config, config+"\n[mcp]\nnode_hours = "+nodeHours+"\n")
	return w
}

func (w *world) assistantUp() error {
	_, err := w.client.AssistantUp(w.t.Context(), api.AssistantRequest{Assistant: "clippy", Session: "jupyter"})
	return err
}

func TestAssistant(t *testing.T) {
	t.Parallel()
	t.Run("starts nothing without somebody to ask", func(t *testing.T) {
		w := assistantWorld(t, "8")
		isCode(t, w.assistantUp(), api.CodeNeedsPerson, "nobody to ask")
		w.untouched(0)
	})
	t.Run("starts nothing unless the config says how much", func(t *testing.T) {
		w := newWorld(t)
		p := w.newPerson(api.AnswersDesktop, "yes")
		isCode(t, w.assistantUp(), api.CodeConfig, "node_hours")
		if len(p.asked) > 0 {
			t.Errorf("the person was asked %q", <-p.asked)
		}
		w.untouched(0)
	})
	t.Run("is not asked about again soon after a no", func(t *testing.T) {
		w := assistantWorld(t, "8")
		p := w.newPerson(api.AnswersDesktop, "no")
		isCode(t, w.assistantUp(), api.CodeNeedsPerson, "did not allow it")
		isCode(t, w.assistantUp(), api.CodeNotReady, "did not agree")
		if text := <-p.asked; !strings.Contains(text, `calls itself "clippy"`) || !strings.Contains(text, "jupyter") || len(p.asked) > 0 {
			t.Errorf("asked %q, and %d more", text, len(p.asked))
		}
		w.untouched(0)
	})
	// Many clients of assistants give up after a minute.
	t.Run("may give up before the user answers", func(t *testing.T) {
		w := assistantWorld(t, "8")
		asking, giveUp := context.WithCancel(t.Context())
		prompts := make(chan string, 10)
		w.onPrompt(client.New(w.paths), api.AnswersDesktop, func(_ context.Context, q *api.Prompt) {
			giveUp()
			prompts <- q.ID
		})
		req := api.AssistantRequest{Assistant: "clippy", Session: "jupyter"}
		if _, err := w.client.AssistantUp(asking, req); err == nil {
			t.Fatal("it was allowed")
		}
		_, err := w.client.AssistantDown(t.Context(), api.AssistantRequest{Assistant: "clippy", Session: "jupyter", Cancel: true})
		if err != nil {
			t.Errorf("what is down and has no job needs nobody's yes: %v", err)
		}
		must(t, w.client.Answer(t.Context(), <-prompts, api.Answer{Text: "yes"}))
		must(t, w.assistantUp())
		w.until("ready", ready)
		if len(prompts) > 0 {
			t.Error("the person was asked twice")
		}
	})
	t.Run("does not approve its own request", func(t *testing.T) {
		w := assistantWorld(t, "8")
		w.onPrompt(w.client, api.AnswersDesktop, func(ctx context.Context, q *api.Prompt) { // it passes for a desktop, too
			t.Errorf("asked %+v", q)
			_ = w.client.Answer(ctx, q.ID, api.Answer{Text: "yes"})
		})
		isCode(t, w.assistantUp(), api.CodeNeedsPerson, "nobody to ask")
	})
	t.Run("starts no more than its node-hours a day", func(t *testing.T) {
		w := assistantWorld(t, "6")
		p := w.newPerson(api.AnswersApproval, "yes")
		must(t, w.assistantUp())
		w.until("ready", ready)
		if text := <-p.asked; !strings.Contains(text, "may ask for 6 node-hours") {
			t.Errorf("asked %q", text)
		}
		_, err := w.client.AssistantDown(t.Context(), api.AssistantRequest{Assistant: "clippy", Session: "jupyter", Cancel: true})
		must(t, err)
		if text := <-p.asked; !strings.Contains(text, "END ITS JOB") {
			t.Errorf("asked %q", text)
		}
		w.stop() // what was started today outlives the agent
		w.start()
		p = w.newPerson(api.AnswersApproval, "yes")
		must(t, w.assistantUp())
		s := w.until("refused", failed)
		if text := <-p.asked; !strings.Contains(text, "may ask for 2 node-hours") {
			t.Errorf("asked %q", text)
		}
		if !strings.Contains(s.Cause, "asks for 4 node-hours, and of the 6 that assistants may start a day 2 are left") || len(w.cluster.Jobs()) != 1 {
			t.Errorf("%d jobs, %s (%s)", len(w.cluster.Jobs()), s.Cause, s.Hint)
		}
		isCode(t, w.assistantUp(), api.CodeSubmit, "2 are left") // the host is up, and tells the size
		if len(p.asked) > 0 {
			t.Errorf("the person was asked %q", <-p.asked)
		}
		w.up() // the user may
	})
	t.Run("needs another yes once the user has taken the session down", func(t *testing.T) {
		w := assistantWorld(t, "8")
		w.up()
		w.until("ready", ready)
		p := w.newPerson(api.AnswersDesktop, "yes")
		must(t, w.assistantUp()) // the job runs already, so that nothing of the node-hours is used
		_, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true})
		must(t, err)
		must(t, w.assistantUp())
		w.until("ready", ready)
		if len(p.asked) != 2 {
			t.Errorf("the person was asked %d times", len(p.asked))
		}
	})
	t.Run("starts no job that is too large", func(t *testing.T) {
		for want, options := range map[string]string{"does not say how long it runs": "", "asks for 200 node-hours": "#SBATCH --time=02:00:00 --array=1-100\n"} {
			t.Run(want, func(t *testing.T) {
				w := assistantWorld(t, "8")
				w.script("#!/bin/sh\n" + options + "sleep 600\n")
				w.newPerson(api.AnswersDesktop, "yes")
				must(t, w.assistantUp())
				if s := w.until("refused", failed); !strings.Contains(s.Cause, want) {
					t.Errorf("%s (%s)", s.Cause, s.Hint)
				}
				w.hasJobs(0)
			})
		}
	})
	t.Run("starts one job, which none follows", func(t *testing.T) {
		w := assistantWorld(t, "8")
		w.write(w.paths.Config, config+"keep = true\n\n[mcp]\nnode_hours = 8\n")
		w.newPerson(api.AnswersDesktop, "yes")
		must(t, w.assistantUp())
		job := w.until("ready", ready).Job.ID
		must(t, w.cluster.TimeOut(job))
		w.until("over", ended)
		w.hasJobs(1)
	})
}
