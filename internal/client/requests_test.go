package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

// serve answers the requests of a client in place of an agent.
func serve(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	p := home.In(t.TempDir())
	l := socketIn(t, p)
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return New(p)
}

func TestLastJobsEmpty(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(api.JobsResponse{}) })
	list, err := c.LastJobsOf(t.Context(), []string{"narval"})
	text, _ := json.Marshal(list)
	if want := `[{"host":"narval","jobs":[]}]`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

func TestRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		status int
		code   api.Code
		hint   string
	}{
		"of an agent that does not know a field":   {`{"code":"usage","message":"cannot read the request: json: unknown field \"waiter\""}`, 400, api.CodeAgent, "`tunctl agent restart`"},
		"of an agent that does not know a request": {"404 page not found\n", 404, api.CodeAgent, "`tunctl agent restart`"},
		"of an agent that knows it":                {`{"code":"unknown-session","message":"no session","hint":"try nb"}`, 404, api.CodeUnknownSession, "try nb"},
		"without words":                            {"", 500, api.CodeAgent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			})
			_, err := c.Up(t.Context(), api.UpRequest{Session: "nb", Waiter: "w"})
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != tt.code || !strings.HasPrefix(e.Hint, tt.hint) || tt.hint == "" && e.Hint != "" {
				t.Errorf("%+v", err)
			}
		})
	}
}
