package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tunctl/internal/freeport"
)

var (
	//go:embed scripts/practice.slurm
	slurmScript string
	//go:embed scripts/practice.pbs
	pbsScript string
)

// JobScript is the built-in practice job for a dialect. It has the shape of a real
// one: it picks a port, says where it will listen, and serves.
func JobScript(dialect string) string {
	if dialect == PBS {
		return pbsScript
	}
	return slurmScript
}

// pageProgram is what the job script calls to serve the page.
const pageProgram = "practice-page"

// ServePage serves the practice job's page until ctx is over or the process is asked
// to end, writing to out what a notebook server would. Its args are those of the job
// script; with --free-port it only prints a port that nobody listens on.
//
// A program that starts a Cluster calls it when it is run as Options.PageCommand.
func ServePage(ctx context.Context, args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	_ = os.WriteFile("/proc/self/comm", []byte(pageProgram), 0o600) // on Linux, the name of the program for others
	return runPage(ctx, args, os.Getenv, out)
}

// fetchTimeout bounds a Fetch.
const fetchTimeout = 20 * time.Second

// Fetch gets a page of loopback as a browser does, and returns its status. It does not resolve the name localhost.
func Fetch(ctx context.Context, url string) (status string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if port, ok := strings.CutPrefix(address, "localhost:"); ok {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}}
	res, err := browser.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return res.Status, errors.New("it responded with " + res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.Status, err
}

// servePage is the same for a job that is interpreted in this process.
func servePage(ctx context.Context, c *call) int {
	if err := runPage(ctx, c.args, c.getenv, c.stdout); err != nil {
		return c.failf(1, "%s: %v", pageProgram, err)
	}
	return 0
}

func runPage(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet(pageProgram, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	free := flags.Bool("free-port", false, "")
	port := flags.Int("port", 0, "")
	flags.String("ip", "", "") // of any name: the practice cluster is on loopback only
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *free {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, port)
		return err
	}
	listener, err := listenLocal(ctx, *port)
	if err != nil {
		return err
	}
	p := &page{
		Node:  cmp.Or(getenv("HOSTNAME"), "localhost"),
		Job:   getenv("TUNCTL_PRACTICE_JOB"),
		port:  listener.Addr().(*net.TCPAddr).Port,
		token: newToken(),
		since: time.Now(),
		out:   out,
	}
	return p.serve(ctx, listener)
}

func listenLocal(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// freePort finds a port that nobody listens on. It is below those that systems give to
// outgoing connections, and below those that a forward of tunctl takes, so that hardly anybody
// takes it before the server listens.
func freePort(ctx context.Context) (port int, err error) {
	for range 20 {
		port = 20000 + mathrand.IntN(8000) //nolint:gosec // no secret
		var listener net.Listener
		if listener, err = listenLocal(ctx, port); err == nil {
			return port, freeport.Close(listener)
		}
	}
	return 0, err
}

// page is a notebook server's stand-in: it wants the token and says what happened.
type page struct {
	Node, Job string
	port      int
	token     string
	since     time.Time
	out       io.Writer
}

func newToken() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (p *page) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		p.log("C", "received signal 15, stopping")
		p.log("I", "Shutting down the practice page")
		_ = server.Close()
	})
	p.announce()
	err := server.Serve(listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// announce says where the page is, in the words of a Jupyter server.
func (p *page) announce() {
	urls := [2]string{}
	for i, host := range []string{p.Node, "127.0.0.1"} {
		urls[i] = fmt.Sprintf("http://%s:%d/lab?token=%s", host, p.port, p.token)
	}
	p.log("I", "This is the page of tunctl's practice cluster, in place of a notebook server.")
	p.log("I", "Jupyter Server (practice) is running at:")
	p.log("I", urls[0])
	p.log("I", " or "+urls[1])
	p.log("I", "Use Control-C to stop this server and shut down all kernels (twice to skip confirmation).")
	fmt.Fprintf(p.out, `    
    To access the server, copy and paste one of these URLs:
        %s
     or %s
`, urls[0], urls[1])
}

func (p *page) log(level, text string) {
	fmt.Fprintf(p.out, "[%s %s ServerApp] %s\n", level, time.Now().Format("2006-01-02 15:04:05.000"), text)
}

func (p *page) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", p.status)
	mux.HandleFunc("GET /lab", p.lab)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, (&url.URL{Path: "/lab", RawQuery: r.URL.RawQuery}).String(), http.StatusFound)
	})
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"version": "practice"}) // Jupyter sends its version to everybody
	})
	return mux
}

// tokenCookie lets the user reload the page. Its name has the port, since cookies
// of several sessions on localhost would take each other's place.
func (p *page) tokenCookie() string { return fmt.Sprintf("tunctl-practice-%d", p.port) }

// allowed looks for the token where Jupyter does, and in the cookie.
func (p *page) allowed(r *http.Request) bool {
	given := []string{r.URL.Query().Get("token")}
	for _, scheme := range []string{"token ", "Bearer "} {
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), scheme); ok {
			given = append(given, token)
		}
	}
	if cookie, err := r.Cookie(p.tokenCookie()); err == nil {
		given = append(given, cookie.Value)
	}
	for _, token := range given {
		if subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) == 1 {
			return true
		}
	}
	return false
}

func (p *page) status(w http.ResponseWriter, r *http.Request) {
	if !p.allowed(r) {
		writeJSON(w, http.StatusForbidden, map[string]any{"message": "Forbidden", "reason": nil})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"started": p.since.UTC(), "last_activity": time.Now().UTC(), "connections": 0, "kernels": 0, "practice": true,
	})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

func (p *page) lab(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	allowed := p.allowed(r)
	if allowed {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure: the page is plain HTTP on loopback
			Name: p.tokenCookie(), Value: p.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	} else {
		w.WriteHeader(http.StatusForbidden)
	}
	_ = pageTemplate.Execute(w, map[string]any{
		"Allowed": allowed, "Node": p.Node, "Job": p.Job, "Port": p.port, "Host": r.Host,
		"Since": p.since.Format("15:04:05"),
	})
}
