package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/peer"
)

const (
	apiPath   = "/api/"
	enterPath = apiPath + "enter"
	maxBody   = 64 << 10
)

// policy allows the page its own files and requests to its own address. Nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"worker-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard rejects what is not a page of ours: another user's program, a name that was rebound
// to loopback, another origin such as a notebook on another port, and a request for data
// without a bearer value.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		data := strings.HasPrefix(r.URL.Path, apiPath)
		switch foreign := peer.CheckRequest(r); {
		case r.Host != s.host:
			refuse(w, http.StatusMisdirectedRequest, "wrong host name for the dashboard")
		case foreign != nil:
			refuse(w, http.StatusForbidden, foreign.Error())
		case !s.fromOwnOrigin(r, data):
			refuse(w, http.StatusForbidden, "requests from other pages are refused")
		case data && r.URL.Path != enterPath && !s.hasBearer(r):
			refuse(w, http.StatusUnauthorized, "this page was not opened by tunctl, or the dashboard was restarted")
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, status int, message string) {
	writeError(w, status, api.Errorf(api.CodeUsage, "%s", message))
}

// fromOwnOrigin reports whether a request is not from another page. A browser names the
// origin in every request that changes something, and in all that a script of another
// origin sends. A person may come from anywhere to the page itself.
func (s *Server) fromOwnOrigin(r *http.Request, data bool) bool {
	origin := r.Header.Get("Origin")
	if origin == "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if origin != "" && origin != "http://"+s.host {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return !data || site == "" || site == "same-origin"
}

func (s *Server) hasBearer(r *http.Request) bool {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && s.bearers[digestOf(bearer)]
}

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// enter exchanges a one-time value for a bearer value.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Once string `json:"once"` // the value of the address that a page was opened with
	}
	if !readJSON(w, r, &req) {
		return
	}
	link := digestOf(req.Once)
	s.mu.Lock()
	ends, valid := s.links[link]
	delete(s.links, link)
	var bearer string
	if valid = valid && time.Now().Before(ends); valid {
		bearer = rand.Text()
		s.bearers[digestOf(bearer)] = true
	}
	s.mu.Unlock()
	if !valid {
		refuse(w, http.StatusGone, "this address was used already or is too old")
		return
	}
	writeJSON(w, map[string]string{"bearer": bearer})
}
