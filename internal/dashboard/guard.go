package dashboard

import (
	"net"
	"net/http"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/internal/peer"
)

const (
	apiPath   = "/api/"
	enterPath = apiPath + "enter"
	maxBody   = 64 << 10
)

// policy allows a page its own files and requests to its own address. Nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"worker-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard serves the page with the button and the pages that tunctl has opened, each under its own
// name, and rejects everybody else: another user's program, a name that was rebound to
// loopback, another origin such as a notebook on another port, and a request for data without
// a bearer value.
func (s *Server) guard() http.Handler {
	door, app := s.doorRoutes(), s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with less, a form does not name its origin
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		page := s.pageAt(r.Host)
		data := strings.HasPrefix(r.URL.Path, apiPath)
		switch foreign := peer.CheckRequest(r); {
		case foreign != nil:
			refuse(w, http.StatusForbidden, foreign.Error())
		case page == nil && r.Host != s.door && s.isFormerPage(r) && r.Method == http.MethodGet && !data:
			http.Redirect(w, r, s.lockedURL(), http.StatusSeeOther)
		case page == nil && r.Host == net.JoinHostPort("localhost", s.port) && r.Method == http.MethodGet && !data:
			http.Redirect(w, r, "http://"+s.door+"/", http.StatusSeeOther)
		case page == nil && r.Host != s.door:
			refuse(w, http.StatusMisdirectedRequest, "wrong host name for the dashboard")
		case !fromOwnOrigin(r, data):
			refuse(w, http.StatusForbidden, "requests from other pages are refused")
		case page == nil:
			door.ServeHTTP(w, r)
		case data && r.URL.Path != enterPath && !s.hasBearer(r, page):
			refuse(w, http.StatusUnauthorized, "this page was not opened by tunctl, or the dashboard was restarted")
		default:
			app.ServeHTTP(w, r)
		}
	})
}

// isFormerPage reports whether a request is for a page of a server that has ended: somebody
// loads an old tab again.
func (s *Server) isFormerPage(r *http.Request) bool {
	name, port, err := net.SplitHostPort(r.Host)
	return err == nil && port == s.port && strings.HasSuffix(name, ".localhost")
}

func refuse(w http.ResponseWriter, status int, message string) {
	localapi.Refuse(w, status, api.Errorf(api.CodeUsage, "%s", message))
}

// fromOwnOrigin reports whether a request is not from another page. A browser names the
// origin in every request that changes something, and in all that a script of another
// origin sends. The user may come from anywhere to the page itself.
func fromOwnOrigin(r *http.Request, data bool) bool {
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if origin := r.Header.Get("Origin"); origin != "http://"+r.Host && (changes || origin != "") {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return !data && !changes || site == "" || site == "same-origin"
}
