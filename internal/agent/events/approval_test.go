package events

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

// TestARequestIsAnsweredBeforeItsClientGivesUp has a client of an assistant that waits for a minute.
func TestARequestIsAnsweredBeforeItsClientGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub()
		p := NewPrompts(hub)
		desktop := hub.Subscribe("desktop", api.AnswersDesktop)
		request := func(text, want string) {
			t.Helper()
			began := time.Now()
			err := p.Approve(t.Context(), "assistant", "narval", text, 0)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			if took := time.Since(began); took >= time.Minute {
				t.Errorf("%s took %v", text, took)
			}
		}
		asked := func() string {
			t.Helper()
			for {
				select {
				case e := <-desktop.C:
					if e.Type == api.EventPrompt {
						return e.Prompt.ID
					}
				default:
					t.Fatal("nobody was asked")
				}
			}
		}
		request("start", "has not answered yet")
		request("stop", "another request")
		if err := p.Answer(asked(), api.Answer{Text: "yes"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-desktop.C // the question is closed
		if e := <-desktop.C; e.Notice == nil || !strings.Contains(e.Notice.Text, "no longer waits") {
			t.Errorf("the person is told %+v", e)
		}
		request("start", "")
		request("start", "") // as a client does that left as the answer came
		time.Sleep(approvalRepeat)
		request("start", "has not answered yet")
		if err := p.Answer(asked(), api.Answer{Cancelled: true}); err != nil {
			t.Fatal(err)
		}
		request("start", "closed without an answer")
		time.Sleep(approvalPause)

		request("start again", "has not answered yet")
		asked()
		time.Sleep(approvalTime)
		request("start again", "did not answer within")
		request("start again", "has just been asked, and did not answer")
		time.Sleep(approvalPause)
		request("start again", "has not answered yet")
		if err := p.Answer(asked(), api.Answer{Cancelled: true}); err != nil {
			t.Fatal(err)
		}
		request("start again", "closed without an answer")
		hub.Close()
	})
}
