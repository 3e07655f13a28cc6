package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/dev/must"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
)

// agentWith is a client of an agent that answers each request as routes do.
func agentWith(t *testing.T, routes http.Handler) *client.Client {
	t.Helper()
	paths := home.In(t.TempDir())
	must.Do(t, os.MkdirAll(filepath.Dir(paths.Socket), 0o700))
	l, err := localsocket.Listen(t.Context(), paths.Socket)
	must.Do(t, err)
	srv := &http.Server{Handler: routes}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return client.New(paths)
}

// handed is what the dashboard gave to the browser and to the clipboard.
type handed struct {
	opened, copied []string
	clipboard      error
}

// press presses a button for a page, and returns what the dashboard's page was told.
func (h *handed) press(t *testing.T, verb string, page api.OpenResponse) (int, string) {
	t.Helper()
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/sessions/{name}/open", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(page) })
	_, link := serveWith(t, Options{
		Client: agentWith(t, routes),
		Desktop: action.Desktop{
			Open: func(_ context.Context, url string) error {
				h.opened = append(h.opened, url)
				return nil
			},
			Copy: func(_ context.Context, text string) error {
				if h.clipboard == nil {
					h.copied = append(h.copied, text)
				}
				return h.clipboard
			},
		},
	})
	_, bearer := enterAs(t, link)
	status, _, text := fetch(t, hostOf(link), http.MethodPost, "/api/sessions/work/"+verb, "{}", map[string]string{"Authorization": "Bearer " + bearer})
	return status, text
}

func TestOpenWithPassword(t *testing.T) {
	page := api.OpenResponse{URL: "http://127.0.0.1:8787/", App: "rstudio", User: "ada", Password: "correct-horse"}
	var h handed
	status, text := h.press(t, "open", page)
	if status != http.StatusOK || len(h.opened) != 1 || h.opened[0] != page.URL || len(h.copied) != 1 || h.copied[0] != page.Password {
		t.Errorf("%d %s: %+v", status, text, h)
	}
	if strings.Contains(text, page.Password) || !strings.Contains(text, "as ada") || !strings.Contains(text, "clipboard") {
		t.Errorf("the page is told %s", text)
	}
	h = handed{clipboard: desktop.ErrUnavailable}
	status, text = h.press(t, "open", page)
	if status != http.StatusOK || len(h.opened) != 1 || strings.Contains(text, page.Password) || !strings.Contains(text, "tunctl open work --print") {
		t.Errorf("without a clipboard: %d %s: %+v", status, text, h)
	}
}

func TestOpenWithoutPage(t *testing.T) {
	var h handed
	status, text := h.press(t, "open", api.OpenResponse{URL: "cs://127.0.0.1:11111", App: "paraview"})
	if status != http.StatusOK || len(h.opened) != 0 || !strings.Contains(text, "127.0.0.1:11111") {
		t.Errorf("%d %s: %+v", status, text, h)
	}
}

func TestCopy(t *testing.T) {
	for url, secret := range map[string]bool{"http://127.0.0.1:8888/lab?token=abc": true, "cs://127.0.0.1:11111": false} {
		var h handed
		status, text := h.press(t, "copy", api.OpenResponse{URL: url})
		if status != http.StatusOK || len(h.copied) != 1 || h.copied[0] != url || strings.Contains(text, "token") != secret || strings.Contains(text, "abc") {
			t.Errorf("%s: %d %s: %+v", url, status, text, h)
		}
	}
}

func TestLog(t *testing.T) {
	asked := make(chan string, 10)
	_, link := serveWith(t, Options{Client: agentWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RequestURI()
		w.WriteHeader(http.StatusNotFound)
	}))})
	_, bearer := enterAs(t, link)
	for query, want := range map[string]string{
		"session=work&host=alpha&job=7&secrets=1": "/v1/sessions/work/log?follow=1&lines=1&tail=1000",
		"host=alpha&job=7":                        "/v1/hosts/alpha/jobs/7/log?follow=1&lines=1&tail=1000",
		"session=work&whole=1":                    "/v1/sessions/work/log?tail=0",
	} {
		fetch(t, hostOf(link), http.MethodGet, "/api/log?"+query, "", map[string]string{"Authorization": "Bearer " + bearer})
		if got := <-asked; strings.NewReplacer("&secrets=", "", "secrets=&", "", "follow=&", "", "lines=&", "").Replace(got) != want {
			t.Errorf("%s: the agent is asked for %s, want %s", query, got, want)
		}
	}
}
