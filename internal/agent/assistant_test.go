package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/lab"
)

// person is somebody who answers what assistants ask.
type person struct {
	asked chan string // the texts of the questions
}

// newPerson watches as a desktop or a terminal does, and answers every question.
func (w *world) newPerson(answers api.Answers, says string) *person {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	c := client.New(w.paths)
	p := &person{asked: make(chan string, 10)}
	watching, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ready := sync.OnceFunc(func() { close(watching) })
		_ = c.Watch(ctx, answers, "", func(e api.Event) { // it ends by our cancel
			switch e.Type {
			case api.EventStatus:
				ready()
			case api.EventPrompt:
				p.asked <- e.Prompt.Text
				if err := c.Answer(ctx, e.Prompt.ID, api.Answer{Text: says}); err != nil && ctx.Err() == nil { // the test may end before the response
					w.t.Error(err)
				}
			}
		})
	}()
	<-watching
	w.t.Cleanup(func() { cancel(); <-done })
	return p
}

// assistantWorld has a job of four node-hours, and assistants that may start so many.
func assistantWorld(t *testing.T, nodeHours string) *world {
	w := newWorld(t)
	script := strings.Replace(lab.JobScript(lab.Slurm), "\n", "\n#SBATCH --nodes=2 --time=02:00:00\n", 1)
	w.write(w.cluster.Home()+"/jupyter.sh", script)
	w.write(w.paths.Config, config+"\n[mcp]\nnode_hours = "+nodeHours+"\n")
	return w
}

func (w *world) assistantUp() error {
	_, err := w.client.AssistantUp(w.t.Context(), api.AssistantRequest{Assistant: "clippy", Session: "jupyter"})
	return err
}

func mustFailWith(t *testing.T, err error, code api.Code, words string) {
	t.Helper()
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != code || !strings.Contains(e.Message+"\n"+e.Hint, words) {
		t.Errorf("err = %v, want %s with %q", err, code, words)
	}
}

func TestAnAssistantStartsNothingWithoutSomebodyToAsk(t *testing.T) {
	w := assistantWorld(t, "8")
	mustFailWith(t, w.assistantUp(), api.CodeNeedsPerson, "nobody to ask")
	w.untouched(0)
}

func TestAnAssistantStartsNothingUnlessTheConfigSaysHowMuch(t *testing.T) {
	w := newWorld(t)
	p := w.newPerson(api.AnswersDesktop, "yes")
	mustFailWith(t, w.assistantUp(), api.CodeConfig, "node_hours")
	if len(p.asked) > 0 {
		t.Errorf("the person was asked %q", <-p.asked)
	}
	w.untouched(0)
}

func TestAPersonsNoIsFinalForAWhile(t *testing.T) {
	w := assistantWorld(t, "8")
	p := w.newPerson(api.AnswersDesktop, "no")
	mustFailWith(t, w.assistantUp(), api.CodeNeedsPerson, "did not allow it")
	mustFailWith(t, w.assistantUp(), api.CodeNotReady, "did not agree")
	if text := <-p.asked; !strings.Contains(text, `calls itself "clippy"`) || !strings.Contains(text, "jupyter") || len(p.asked) > 0 {
		t.Errorf("asked %q, and %d more", text, len(p.asked))
	}
	w.untouched(0)
}

// TestAQuestionOutlivesTheRequestThatCausedIt has an assistant whose client gives up before the
// person answers, as many do after a minute.
func TestAQuestionOutlivesTheRequestThatCausedIt(t *testing.T) {
	w := assistantWorld(t, "8")
	asking, giveUp := context.WithCancel(t.Context())
	watching, stop := context.WithCancel(t.Context())
	started, done, prompts := make(chan struct{}), make(chan struct{}), make(chan string, 10)
	go func() {
		defer close(done)
		ready := sync.OnceFunc(func() { close(started) })
		_ = client.New(w.paths).Watch(watching, api.AnswersDesktop, "", func(e api.Event) {
			switch e.Type {
			case api.EventStatus:
				ready()
			case api.EventPrompt:
				giveUp()
				prompts <- e.Prompt.ID
			}
		})
	}()
	defer func() { stop(); <-done }()
	<-started
	req := api.AssistantRequest{Assistant: "clippy", Session: "jupyter"}
	if _, err := w.client.AssistantUp(asking, req); err == nil {
		t.Fatal("it was allowed")
	}
	_, err := w.client.AssistantDown(t.Context(), api.AssistantRequest{Assistant: "clippy", Session: "jupyter", Cancel: true})
	if err != nil {
		t.Errorf("what is down and has no job needs nobody's yes: %v", err)
	}
	if err := w.client.Answer(t.Context(), <-prompts, api.Answer{Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	if err := w.assistantUp(); err != nil {
		t.Fatal(err)
	}
	w.until("ready", ready)
	if len(prompts) > 0 {
		t.Error("the person was asked twice")
	}
}

// TestNobodyApprovesTheirOwnRequest has an assistant that also passes for a desktop.
func TestNobodyApprovesTheirOwnRequest(t *testing.T) {
	w := assistantWorld(t, "8")
	ctx, cancel := context.WithCancel(t.Context())
	watching, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ready := sync.OnceFunc(func() { close(watching) })
		_ = w.client.Watch(ctx, api.AnswersDesktop, "", func(e api.Event) {
			switch e.Type {
			case api.EventStatus:
				ready()
			case api.EventPrompt:
				t.Errorf("asked %+v", e.Prompt)
				_ = w.client.Answer(ctx, e.Prompt.ID, api.Answer{Text: "yes"})
			}
		})
	}()
	<-watching
	mustFailWith(t, w.assistantUp(), api.CodeNeedsPerson, "nobody to ask")
	cancel()
	<-done
}

func TestAssistantsStartNoMoreThanTheirNodeHoursADay(t *testing.T) {
	w := assistantWorld(t, "6")
	p := w.newPerson(api.AnswersApproval, "yes")
	if err := w.assistantUp(); err != nil {
		t.Fatal(err)
	}
	w.until("ready", ready)
	if text := <-p.asked; !strings.Contains(text, "may ask for 6 node-hours") {
		t.Errorf("asked %q", text)
	}
	if _, err := w.client.AssistantDown(t.Context(), api.AssistantRequest{Assistant: "clippy", Session: "jupyter", Cancel: true}); err != nil {
		t.Fatal(err)
	}
	if text := <-p.asked; !strings.Contains(text, "END ITS JOB") {
		t.Errorf("asked %q", text)
	}
	w.stop() // what was started today outlives the agent
	w.start()
	p = w.newPerson(api.AnswersApproval, "yes")
	if err := w.assistantUp(); err != nil {
		t.Fatal(err)
	}
	s := w.until("refused", func(s api.Session) bool { return s.State == api.SessionFailed })
	if text := <-p.asked; !strings.Contains(text, "may ask for 2 node-hours") {
		t.Errorf("asked %q", text)
	}
	if !strings.Contains(s.Cause, "asks for 4 node-hours, and of the 6 that assistants may start a day 2 are left") || len(w.cluster.Jobs()) != 1 {
		t.Errorf("%d jobs, %s (%s)", len(w.cluster.Jobs()), s.Cause, s.Hint)
	}
	mustFailWith(t, w.assistantUp(), api.CodeSubmit, "2 are left") // the host is up, and tells the size
	if len(p.asked) > 0 {
		t.Errorf("the person was asked %q", <-p.asked)
	}
	w.up() // a person may
}

func TestAnAssistantStartsNoJobWithoutATimeLimit(t *testing.T) {
	w := assistantWorld(t, "8")
	w.write(w.cluster.Home()+"/jupyter.sh", "#!/bin/sh\nsleep 600\n")
	w.newPerson(api.AnswersDesktop, "yes")
	if err := w.assistantUp(); err != nil {
		t.Fatal(err)
	}
	s := w.until("refused", func(s api.Session) bool { return s.State == api.SessionFailed })
	if !strings.Contains(s.Cause, "does not say how long it runs") || len(w.cluster.Jobs()) > 0 {
		t.Errorf("%d jobs, %s (%s)", len(w.cluster.Jobs()), s.Cause, s.Hint)
	}
}

func TestEveryJobOfAnArrayCountsForAssistants(t *testing.T) {
	w := assistantWorld(t, "8")
	w.write(w.cluster.Home()+"/jupyter.sh", strings.Replace(lab.JobScript(lab.Slurm), "\n", "\n#SBATCH --time=02:00:00 --array=1-100\n", 1))
	w.newPerson(api.AnswersDesktop, "yes")
	if err := w.assistantUp(); err != nil {
		t.Fatal(err)
	}
	s := w.until("refused", func(s api.Session) bool { return s.State == api.SessionFailed })
	if !strings.Contains(s.Cause, "asks for 200 node-hours") || len(w.cluster.Jobs()) > 0 {
		t.Errorf("%d jobs, %s (%s)", len(w.cluster.Jobs()), s.Cause, s.Hint)
	}
}

func TestNoJobFollowsOneThatAnAssistantStarted(t *testing.T) {
	w := assistantWorld(t, "8")
	w.write(w.paths.Config, config+"keep = true\n\n[mcp]\nnode_hours = 8\n")
	w.newPerson(api.AnswersDesktop, "yes")
	if err := w.assistantUp(); err != nil {
		t.Fatal(err)
	}
	job := w.until("ready", ready).Job.ID
	if err := w.cluster.TimeOut(job); err != nil {
		t.Fatal(err)
	}
	w.until("over", func(s api.Session) bool { return s.State == api.SessionEnded })
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs", n)
	}
}
