package dashboard

import (
	"cmp"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"time"

	"tunctl/internal/desktop"
)

// pressEvery is the time between two uses of the button: what another server left in the
// browser could press it, too.
const pressEvery = 5 * time.Second

// notice is what the page with the button tells.
type notice struct{ Title, Text, Command string }

const (
	doorTitle   = "tunctl dashboard"
	openCommand = "tunctl dashboard"
)

// notices are by the query of the page's address. Nothing of a request is on the page.
var notices = map[string]notice{
	"":        {doorTitle, "It opens in a new tab, each time at a new address that works once: no other page and no other user of this computer can use it.", ""},
	"opened":  {doorTitle, "The dashboard is open in a new tab.", ""},
	"soon":    {doorTitle, "It is being opened: wait a few seconds before you try again.", ""},
	"locked":  {"This page needs a new address", "Each address works once: this one was used already, or tunctl was restarted since. The button or this command opens a new one:", openCommand},
	"browser": {"No browser was found", "The dashboard was started without a desktop, and cannot open a tab. This prints an address to open yourself:", openCommand + " --print"},
	"failed":  {"The browser did not open the page", "Try again, or run this in a terminal:", openCommand},
}

//go:embed door.html
var doorHTML string

var doorPage = template.Must(template.New("door").Parse(doorHTML))

// doorRoutes serve the page with the button, at the port that stays the same: it has neither
// data nor secrets.
func (s *Server) doorRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = doorPage.Execute(w, cmp.Or(notices[r.URL.RawQuery], notices[""])) // on an error the page was closed
	})
	mux.HandleFunc("POST /open", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/?"+s.press(r), http.StatusSeeOther)
	})
	for _, name := range []string{"style.css", "icon.svg", "copy.js"} {
		mux.HandleFunc("GET /"+name, serveAsset)
	}
	return mux
}

// press opens a page, and returns which notice tells the result.
func (s *Server) press(r *http.Request) string {
	s.mu.Lock()
	soon := time.Since(s.pressed) < pressEvery
	if !soon {
		s.pressed = time.Now()
	}
	s.mu.Unlock()
	if soon {
		return "soon"
	}
	switch err := s.OpenPage(r.Context()); {
	case errors.Is(err, desktop.ErrNoBrowser):
		return "browser"
	case err != nil:
		return "failed"
	}
	return "opened"
}

// lockedURL is where a page leads that has no valid bearer value.
func (s *Server) lockedURL() string { return "http://" + s.door + "/?locked" }
