package tray

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

func prompt(id string, kind api.PromptKind, text string) api.Prompt {
	return api.Prompt{ID: id, Host: "narval", Kind: kind, Text: text}
}

// prompts plays that the agent asks, or no longer asks.
func (s *stage) prompts(event api.EventType, p api.Prompt) {
	s.events <- api.Event{Type: event, Prompt: &p}
	synctest.Wait()
}

func (s *stage) answer(text string) {
	s.answers <- text
	synctest.Wait()
}

func TestPrompt(t *testing.T) {
	t.Run("one at a time", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.prompts(api.EventPrompt, prompt("1", api.PromptPassword, "alice's password: "))
		s.prompts(api.EventPrompt, prompt("2", api.PromptQuestion, "Code: "))
		if len(s.dialogs.asked) != 1 {
			t.Fatalf("%d dialogs are open at once", len(s.dialogs.asked))
		}
		s.answer("hunter2")
		s.answer("") // cancelled
		s.did(t, "answer 1 hunter2", "answer 2 cancelled")
	}))
	t.Run("a login before an assistant", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.prompts(api.EventPrompt, prompt("1", api.PromptApproval, "The assistant asks."))
		s.prompts(api.EventPrompt, prompt("2", api.PromptApproval, "It asks again."))
		s.prompts(api.EventPrompt, prompt("3", api.PromptQuestion, "Code: "))
		for _, answer := range []string{"123456", "yes", ""} {
			s.answer(answer)
		}
		s.did(t, "answer 3 123456", "answer 1 yes", "answer 2 cancelled")
		if n := len(s.dialogs.asked); n != 4 { // the first one twice
			t.Errorf("%d dialogs were shown", n)
		}
	}))
	t.Run("raised by the menu", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.prompts(api.EventPrompt, prompt("1", api.PromptPassword, "password"))
		if menu := s.shown(); !strings.HasPrefix(menu, "icon: needs-you\ntooltip: tunctl · narval waits for your answer\n\n  Answer narval…") {
			t.Errorf("the menu is %s", menu)
		}
		s.click(verbAnswer.name)
		if n := len(s.dialogs.asked); n != 2 {
			t.Errorf("%d dialogs were shown", n)
		}
		s.answer("hunter2")
		s.did(t, "answer 1 hunter2")
		if menu := s.shown(); !strings.HasPrefix(menu, "icon: idle") {
			t.Errorf("the menu is %s", menu)
		}
	}))
	t.Run("closed with its dialog", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.prompts(api.EventPrompt, prompt("1", api.PromptPassword, "password"))
		s.prompts(api.EventPromptClosed, prompt("1", api.PromptPassword, ""))
		s.prompts(api.EventPrompt, prompt("2", api.PromptPassword, "password"))
		if len(s.dialogs.asked) != 2 {
			t.Fatal("the first dialog is still open")
		}
		s.events <- api.Event{} // the agent goes, and its question with it
		synctest.Wait()
		s.did(t)
	}))
	t.Run("in a terminal without dialogs", play(func(t *testing.T, s *stage) {
		s.failing = errors.New("no display")
		s.status(statuses["down"])
		s.prompts(api.EventPrompt, prompt("1", api.PromptPassword, "password"))
		n := s.told(t)
		if n.Title != "Log in to narval" || len(n.Actions) != 1 {
			t.Fatalf("told %+v", n)
		}
		s.press(n, 0)
		s.did(t, "answer 1 cancelled", "terminal login narval")
	}))
	t.Run("of an assistant", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		const text = `The assistant that calls itself "clippy" asks to start session jupyter on narval.`
		for i, answer := range []string{"yes", ""} {
			p := prompt(strconv.Itoa(i), api.PromptApproval, text)
			s.prompts(api.EventPrompt, p)
			q := <-s.dialogs.asked
			if q.Kind != desktop.AskChoice || q.Text != text || q.Yes != "Allow" || !strings.Contains(q.Title, "assistant") {
				t.Errorf("%+v", q)
			}
			s.answer(answer)
			s.prompts(api.EventPromptClosed, p)
		}
		s.did(t, "answer 0 yes", "answer 1 cancelled")
	}))
	t.Run("of an assistant without a window is not declined", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.failing = desktop.ErrUnavailable
		s.prompts(api.EventPrompt, prompt("0", api.PromptApproval, "The assistant asks."))
		if n := s.told(t); !strings.Contains(n.Body, "tunctl mcp approve") {
			t.Errorf("told %+v", n)
		}
		s.did(t)
	}))
}

func TestPromptDeclined(t *testing.T) {
	needed := statuses["needs-login"]
	for _, tt := range []struct {
		name string
		play func(s *stage)
		told bool
	}{
		{name: "asked at a terminal", play: func(s *stage) {
			s.prompts(api.EventPromptClosed, prompt("1", api.PromptPassword, ""))
		}},
		{name: "a dialog was closed", play: func(s *stage) {
			s.prompts(api.EventPrompt, prompt("1", api.PromptPassword, "password"))
			s.answer("")
			s.prompts(api.EventPromptClosed, prompt("1", api.PromptPassword, ""))
		}},
		{name: "the password was wrong", told: true, play: func(s *stage) {
			s.prompts(api.EventPrompt, prompt("1", api.PromptPassword, "password"))
			s.answer("wrong")
			s.prompts(api.EventPromptClosed, prompt("1", api.PromptPassword, ""))
		}},
	} {
		t.Run(tt.name, play(func(t *testing.T, s *stage) {
			s.status(statuses["down"])
			tt.play(s)
			s.status(needed)
			if told := len(s.notes) > 0; told != tt.told {
				t.Errorf("told: %v, want %v", told, tt.told)
			}
		}))
	}
}

func TestPromptText(t *testing.T) {
	key := prompt("1", api.PromptHostKey, "The authenticity of narval can't be established. Its ED25519 key fingerprint is SHA256:abc. Compare it. Trust it?")
	key.Fingerprint, key.Echo = "SHA256:abc", true
	code := prompt("2", api.PromptQuestion, "Passcode: ")
	code.Instruction = "Duo two-factor login for alice\n"
	otherKey := prompt("5", api.PromptHostKey, "Its key is SHA256:abc. Keys of other types are known. Trust it?")
	otherKey.Fingerprint = "SHA256:abc"
	wrong := prompt("6", api.PromptPassword, "alice@narval's password: ")
	wrong.Retry = "that was not right; 2 more tries before tunctl stops"
	visible := code
	visible.Echo = true
	for _, tt := range []struct {
		name   string
		prompt api.Prompt
		kind   desktop.QuestionKind
		text   string
	}{
		{"host key", key, desktop.AskChoice, "Why.\n\nThe authenticity of narval can't be established. Its ED25519 key fingerprint is\n\nSHA256:abc\n\nCompare it."},
		{"another host key", otherKey, desktop.AskChoice, "Why.\n\nIts key is\n\nSHA256:abc\n\nKeys of other types are known."},
		{"code", code, desktop.AskSecret, "Why.\n\nDuo two-factor login for alice\n\nPasscode:"},
		{"visible code", visible, desktop.AskLine, "Why.\n\nDuo two-factor login for alice\n\nPasscode:"},
		{"password", prompt("3", api.PromptPassword, "alice@narval's password: "), desktop.AskSecret, "Why.\n\nalice@narval's password:"},
		{"wrong password", wrong, desktop.AskSecret, "That was not right; 2 more tries before tunctl stops.\nWhy.\n\nalice@narval's password:"},
		{"confirm", prompt("4", api.PromptConfirm, "Try anyway?"), desktop.AskChoice, "Why.\n\nTry anyway?"},
	} {
		q := questionFor(tt.prompt, "Why.")
		if q.Kind != tt.kind || q.Text != tt.text || !strings.Contains(q.Title, "narval") {
			t.Errorf("%s: %+v", tt.name, q)
		}
	}
}

func TestPromptReason(t *testing.T) {
	for want, st := range map[string]view{
		"tunctl is connecting to narval.":                                         statuses["down"],
		"tunctl is connecting to narval for jupyter.":                             statuses["connecting"],
		"The connection to narval was lost. Log in to reconnect jupyter.":         statuses["reconnecting"],
		"The connection to narval was lost. Log in to reconnect jupyter and lab.": reached(nil, session("jupyter", api.SessionReconnecting), session("lab", api.SessionReconnecting)),
	} {
		if got := whyNow("narval", st.Status); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNotice(t *testing.T) {
	t.Run("of a certificate that ends soon", play(func(t *testing.T, s *stage) {
		host := func(state api.HostState) view {
			return reached([]api.Host{{Alias: "narval", State: state}}, session("jupyter", api.SessionReady, page))
		}
		s.status(host(api.HostUp))
		s.notice(api.Notice{
			Kind: api.NoticeNeedsLogin, Host: "narval", Text: "your certificate for narval expires soon: after 17:30, a lost connection needs you",
		})
		if n := s.told(t); n.Title != "Your certificate for narval expires soon" || n.Body != "After 17:30, a lost connection needs you." || !n.Urgent {
			t.Errorf("told %+v", n)
		}
		s.status(host(api.HostUp)) // it stays
		s.status(host(api.HostDown))
		s.withdrawn(t, "needs-login:narval")
	}))
	t.Run("of a time limit has a button for more time", play(func(t *testing.T, s *stage) {
		end := time.Now().Add(10 * time.Minute)
		running := func(end time.Time) view {
			return reached(nil, session("jupyter", api.SessionReady, page, job(func(j *api.Job) { j.State, j.End = api.JobRunning, end })))
		}
		s.status(running(end))
		s.notice(api.Notice{
			Kind: api.NoticeTimeLimit, Session: "jupyter", Text: "jupyter ends in 10 min, at 12:10: save your work",
		})
		n := s.told(t)
		if n.Title != "jupyter ends in 10 min, at 12:10" || n.Body != "Save your work. Extend it from the tray menu, if the site allows that." || !n.Urgent || len(n.Actions) != 1 {
			t.Fatalf("told %+v", n)
		}
		s.press(n, 0)
		s.did(t, "extend jupyter 1h0m0s")
		if n := s.told(t); n.Title != "jupyter was extended" || !strings.HasPrefix(n.Body, "Job 1001 runs until ") {
			t.Errorf("after it, %+v", n)
		}
		s.status(running(end.Add(time.Hour)))
		s.withdrawn(t, "time-limit:jupyter")
	}))
	t.Run("is withdrawn with the tray", play(func(t *testing.T, s *stage) {
		s.status(reached(nil, session("jupyter", api.SessionReady, page, job(func(j *api.Job) { j.State, j.End = api.JobRunning, time.Now().Add(30*time.Minute) }))))
		s.notice(api.Notice{Kind: api.NoticeTimeLimit, Session: "jupyter", Text: "jupyter ends at 12:30: save your work"})
		if n := s.told(t); n.Urgent {
			t.Errorf("half an hour before the end, %+v stays", n)
		}
		s.end()
		synctest.Wait()
		s.withdrawn(t, "time-limit:jupyter")
	}))
	t.Run("of the config is withdrawn when that is right again", play(func(t *testing.T, s *stage) {
		s.status(statuses["bad-config"])
		s.notice(api.Notice{Kind: api.NoticeConfig, Text: "the config has errors; the last valid one stays in use: config.toml:3:1"})
		n := s.told(t)
		if n.Title != "The config has errors" || len(n.Actions) != 1 {
			t.Fatalf("told %+v", n)
		}
		s.status(statuses["bad-config"])
		s.status(statuses["ready"])
		s.withdrawn(t, n.Tag)
	}))
	t.Run("of a job that is charged stays until the tray ends", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		told := map[string]bool{}
		for _, job := range []string{"job 7", "job 8"} {
			s.notice(api.Notice{Session: "jupyter", Text: job + " appeared: it is charged until you use or end it"})
			n := s.told(t)
			if n.Title == "" || len(n.Actions) != 0 {
				t.Fatalf("told %+v", n)
			}
			told[n.Tag] = true
			s.status(statuses["down"])
			if len(s.notes) != 0 {
				t.Errorf("then came %+v", <-s.notes)
			}
		}
		s.end()
		synctest.Wait()
		for range 2 {
			n := s.told(t)
			if n.Title != "" || !told[n.Tag] {
				t.Errorf("withdrew %+v, told %v", n, told)
			}
			delete(told, n.Tag)
		}
	}))
	t.Run("of an idle job is withdrawn when it is used", play(func(t *testing.T, s *stage) {
		idle := session("jupyter", api.SessionReady, page, job(func(j *api.Job) { j.ID, j.State, j.End = "48213", api.JobRunning, time.Now().Add(time.Hour) }))
		idle.Idle = true
		s.status(reached(nil, idle))
		s.notice(api.Notice{Kind: api.NoticeIdle, Session: "jupyter", Text: "jupyter: idle for 30 min, 3.2 GPU-hours left in this job"})
		if n := s.told(t); n.Tag != "idle:jupyter" || n.Title != "jupyter is idle" {
			t.Fatalf("told %+v", n)
		}
		s.status(reached(nil, idle)) // nothing has changed
		used := idle
		used.Idle = false
		s.status(reached(nil, used))
		s.withdrawn(t, "idle:jupyter")
	}))
	t.Run("of a job that ends without use keeps it", play(func(t *testing.T, s *stage) {
		unused := session("jupyter", api.SessionReady, page, job(func(j *api.Job) { j.ID, j.State, j.End = "48213", api.JobRunning, time.Now().Add(5*time.Hour) }))
		unused.IdleEnd = time.Now().Add(time.Hour)
		s.status(reached(nil, unused))
		s.notice(api.Notice{Kind: api.NoticeIdle, Session: "jupyter", Text: "jupyter ends at 13:00 if unused: notebooks that are not saved are lost"})
		n := s.told(t)
		if n.Tag != "idle:jupyter" || n.Title != "jupyter ends at 13:00 if unused" || len(n.Actions) != 2 || n.Actions[0].Label != "Keep" {
			t.Fatalf("told %+v", n)
		}
		s.press(n, 0)
		s.did(t, "keep jupyter")
		if n := s.told(t); n.Title != "jupyter was extended" || n.Body != "Job 1001 counts as used now, for end_idle." {
			t.Errorf("after it, %+v", n)
		}
		unused.IdleEnd = time.Time{}
		s.status(reached(nil, unused))
		s.withdrawn(t, "idle:jupyter")
	}))
	t.Run("of an idle job asks before it ends that", play(func(t *testing.T, s *stage) {
		running := session("jupyter", api.SessionReady, page, job(func(j *api.Job) { j.ID, j.State, j.End = "48213", api.JobRunning, time.Now().Add(time.Hour) }))
		s.status(reached(nil, running))
		s.notice(api.Notice{
			Kind: api.NoticeIdle, Session: "jupyter", Text: "jupyter: idle for 30 min, 3.2 GPU-hours left in this job",
		})
		n := s.told(t)
		if n.Title != "jupyter is idle" || n.Body != "Idle for 30 min, 3.2 GPU-hours left in this job. End the job from the tray menu." || len(n.Actions) != 2 || n.Urgent {
			t.Fatalf("told %+v", n)
		}
		if keep, end := n.Actions[0].Label, n.Actions[1].Label; keep != "Keep" || end != "End the job…" {
			t.Errorf("its buttons are %q and %q", keep, end)
		}
		s.press(n, 0) // Keep
		s.press(n, 1)
		s.did(t)
		question := s.told(t)
		if question.Title != "End the job of jupyter?" || !strings.Contains(question.Body, "48213") || len(question.Actions) != 2 {
			t.Fatalf("it asks %+v", question)
		}
		s.press(question, 1)
		s.did(t, "cancel jupyter")
		running.State, running.Job.State = api.SessionEnded, api.JobCancelled
		running.Asked = true
		s.status(reached(nil, running))
		s.withdrawn(t, "idle:jupyter")
		another := running
		another.State, another.Job = api.SessionReady, &api.Job{ID: "48999", State: api.JobRunning, End: time.Now().Add(time.Hour)}
		s.status(reached(nil, another))
		s.press(question, 1) // some desktops keep old notifications
		if did := s.heard(); len(did) != 1 {
			t.Errorf("the question was about another job, and it did %q", did)
		}
	}))
}

func TestPromptLoginPage(t *testing.T) {
	const link = "https://iam.example.org/device?user_code=ABCD"
	for name, tt := range map[string]struct {
		page    string
		answers []string
		want    []string
	}{
		"agreed":             {link, []string{"yes", "done"}, []string{"browse " + link, "answer 1 done"}},
		"not agreed":         {link, []string{"", "done"}, []string{"answer 1 done"}},
		"another host":       {"", []string{link, "done"}, []string{"answer 1 done"}},
		"nothing is copied":  {"", []string{"", "done"}, []string{"answer 1 done"}},
		"the login declined": {link, []string{"yes", ""}, []string{"browse " + link, "answer 1 cancelled"}},
	} {
		t.Run(name, play(func(t *testing.T, s *stage) {
			s.status(statuses["down"])
			p := prompt("1", api.PromptQuestion, "Open "+link+" and press ENTER")
			p.Links, p.LoginPage = []string{link}, tt.page
			s.prompts(api.EventPrompt, p)
			first := <-s.dialogs.asked
			if tt.page == "" && (first.Kind != desktop.AskLine || first.Value != link) {
				t.Errorf("a link that can only be copied is in %+v", first)
			}
			if tt.page != "" && (first.Kind != desktop.AskChoice || !strings.Contains(first.Text, "\n"+link)) {
				t.Errorf("the page is offered by %+v", first)
			}
			if !strings.Contains(first.Text, p.Text) {
				t.Errorf("the server's text is not in %+v", first)
			}
			for _, a := range tt.answers {
				s.answer(a)
			}
			if second := <-s.dialogs.asked; strings.Contains(second.Text, "://") { // it needs a window of its own
				t.Errorf("the link is repeated by %+v", second)
			}
			s.did(t, tt.want...)
		}))
	}
}
