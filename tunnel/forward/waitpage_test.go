package forward

import (
	"bufio"
	"bytes"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func queued() *waitPage {
	return &waitPage{Status: http.StatusServiceUnavailable, Name: "jupyter", Reason: Reason{
		Title: "Waiting in the queue",
		Text:  "narval starts the job when it is its turn.",
		Steps: []Step{
			{Text: "Connected to narval", State: StepDone},
			{Text: "Job 4242", State: StepDone, Took: 90 * time.Second},
			{Text: "Waiting in the queue", State: StepCurrent, Since: time.Date(2026, 3, 2, 13, 20, 0, 0, time.UTC)},
			{Text: "Start", State: StepComing},
		},
		Facts: []Fact{{"Why", "Waits for nodes <to become> free"}, {"Expected start", "14:05, in 15 min"}},
		Hint:  "`tunctl down jupyter --cancel` gives up; <b> is no markup",
		Since: time.Date(2026, 3, 2, 13, 20, 0, 0, time.UTC),
	}}
}

// answer is a page as a browser reads it.
func answer(t *testing.T, p *waitPage, method string) (status int, header http.Header, body string) {
	t.Helper()
	var b bytes.Buffer
	req := &http.Request{Method: method}
	if err := p.write(&b, req, time.Date(2026, 3, 2, 13, 50, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(&b), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func TestTheWaitingPageIsAsItWas(t *testing.T) {
	var b bytes.Buffer
	if err := queued().write(&b, &http.Request{Method: http.MethodGet}, time.Date(2026, 3, 2, 13, 50, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "waitpage.golden")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the page differs from %s; look at it, then run the test with -update\n%s", golden, b.Bytes())
	}
}

func TestTheWaitingPageMayBeNeitherKeptNorReachOut(t *testing.T) {
	status, header, body := answer(t, queued(), http.MethodGet)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, header %v", status, header)
	}
	policy := header.Get("Content-Security-Policy")
	for _, part := range regexp.MustCompile(`(?s)<(style|script)>(.*?)</`).FindAllStringSubmatch(body, -1) {
		if want := part[1] + "-src '" + sourceHash(part[2]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("the policy does not allow the page's own %s: %s", part[1], policy)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	if out := regexp.MustCompile(`(?i)(src|href|action)="[^"]*"|//[a-z]+\.`).FindAllString(body, -1); len(out) != 1 || out[0] != `href="data:,"` {
		t.Errorf("the page refers to %q", out)
	}
}

func TestTheWaitingPageCarriesNoTokenAndNoMarkup(t *testing.T) {
	p := queued()
	p.Reason.Text = `http://cn01:8888/?token=geheim <img src=x>`
	_, _, body := answer(t, p, http.MethodGet)
	if strings.Contains(body, "geheim") || strings.Contains(body, "<img") {
		t.Errorf("page: %s", body)
	}
}

func TestTheWaitingPageActsOnNothing(t *testing.T) {
	for _, kind := range []ReasonKind{ReasonProgress, ReasonAttention, ReasonTrouble} {
		p := queued()
		p.Reason.Kind = kind
		_, header, body := answer(t, p, http.MethodGet)
		if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'none'") || !strings.Contains(policy, "connect-src 'self'") {
			t.Errorf("policy %q", policy)
		}
		if found := regexp.MustCompile(`(?i)<(form|input|a|iframe)\b`).FindAllString(body, -1); found != nil {
			t.Errorf("the page has %q", found)
		}
		for _, button := range regexp.MustCompile(`<button[^>]*>`).FindAllString(body, -1) {
			if !strings.HasPrefix(button, `<button type="button" class="copy"`) {
				t.Errorf("the page has a button that does more than copy: %s", button)
			}
		}
	}
}

func TestAPageReconnectsAutomaticallyOnlyWhereItSaysSo(t *testing.T) {
	for kind, want := range map[ReasonKind]bool{ReasonProgress: true, ReasonAttention: false, ReasonTrouble: false} {
		p := queued()
		p.Reason.Kind = kind
		_, _, body := answer(t, p, http.MethodGet)
		if strings.Contains(body, "reconnects automatically") != want {
			t.Errorf("kind %q: %s", kind, body)
		}
	}
}

func TestCommandsCanBeCopiedAndOutputIsShownAsItWas(t *testing.T) {
	p := queued()
	p.Reason.Text = "The job failed; its log ends with:\nsrun: error\n  `ls`: not found"
	p.Reason.Hint = "`tunctl logs jupyter` shows the whole log"
	_, _, body := answer(t, p, http.MethodGet)
	for _, want := range []string{
		"<pre tabindex=\"0\">srun: error\n  `ls`: not found</pre>",
		`<code>tunctl logs jupyter</code><button type="button" class="copy"`,
		"</span> shows the whole log</p>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}

func TestAPollLearnsWhenTheWordsChange(t *testing.T) {
	p := queued()
	_, header, body := answer(t, p, http.MethodHead)
	first := header.Get(waitHeader)
	if first == "" || body != "" {
		t.Errorf("state %q, body %q", first, body)
	}
	if _, _, page := answer(t, p, http.MethodGet); !strings.Contains(page, `data-state="`+first+`"`) {
		t.Error("the page does not know its own state")
	}
	for name, change := range map[string]func(*Reason){
		"text": func(r *Reason) { r.Text = "Priority" },
		"fact": func(r *Reason) { r.Facts = []Fact{{"Why", "Priority"}} },
		"step": func(r *Reason) { r.Steps[2].State = StepDone },
		"kind": func(r *Reason) { r.Kind = ReasonTrouble },
		"tray": func(r *Reason) { r.Tray = "Start" },
	} {
		p := queued()
		change(&p.Reason)
		if _, header, _ = answer(t, p, http.MethodHead); header.Get(waitHeader) == first {
			t.Errorf("another %s has the same state", name)
		}
	}
}

func TestOnlyThisMachinesNamesAreAnswered(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost:8888": true, "127.0.0.1:8888": true, "[::1]:8888": true, "localhost": true, "LOCALHOST:1": true, "a.localhost:1": true,
		"evil.example:8888": false, "localhost.evil.example": false, "192.168.1.2:8888": false, "": false,
	} {
		if got := (allowedHosts{}).allow(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
