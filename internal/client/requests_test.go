package client

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
)

func TestTheListOfAHostWithoutJobsIsEmptyAndNotNull(t *testing.T) {
	p := home.In(t.TempDir())
	if err := home.MakePrivate(filepath.Dir(p.Socket)); err != nil {
		t.Fatal(err)
	}
	l, err := localsocket.Listen(t.Context(), p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(api.JobsResponse{}) }
	server := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	list, err := New(p).LastJobsOf(t.Context(), []string{"narval"})
	text, _ := json.Marshal(list)
	if want := `[{"host":"narval","jobs":[]}]`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
