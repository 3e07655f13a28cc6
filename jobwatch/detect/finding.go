package detect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// Finding is what a log says about the server of its job.
type Finding struct {
	Found bool
	api.Endpoint
	Ended       bool   // it was announced, and stopped later in the same log
	Why         string // the reasons; holds no secret
	RuntimeFile string // the path of the server's runtime file, if the log has it
	Doubt       bool   // the runtime file should be read
	Link        string // open this as it is: there is nothing to forward
	// Others are the pages that the log announces besides this one, each with a Name. There
	// may be some although this one was not found.
	Others []Finding
	Name   string // of one of Others: "dask", or "jupyter-2" for a second notebook
	notes  []note
}

// Report is a finding as `tunctl detect --json` prints it.
type Report struct {
	Name  string `json:"name,omitempty"`
	Found bool   `json:"found"`
	api.Endpoint
	Token     string   `json:"token,omitempty"`
	Password  string   `json:"password,omitempty"`
	Ended     bool     `json:"ended"`
	Why       string   `json:"why,omitempty"`
	Endpoints []Report `json:"endpoints,omitempty"` // the others
}

// Report returns the finding for printing, with the token only if secrets is set.
func (f Finding) Report(secrets bool) Report {
	r := Report{Name: f.Name, Found: f.Found, Endpoint: f.Endpoint, Ended: f.Ended, Why: f.Why}
	r.Exposure, r.Guess = "", false // they are not printed
	if secrets {
		r.Token, r.Password = f.Token.Reveal(), f.Password.Reveal()
	}
	for _, o := range f.Others {
		r.Endpoints = append(r.Endpoints, o.Report(secrets))
	}
	return r
}

// Explain prints what was found, why, and what was ignored.
func (f Finding) Explain(w io.Writer, secrets bool) {
	fmt.Fprintln(w, f.summary())
	if f.Found {
		fmt.Fprintf(w, "  why    %s\n", f.Why)
	}
	show := func(name string, s api.Secret) {
		text := s.String()
		if secrets {
			text = s.Reveal()
		}
		if text != "" {
			fmt.Fprintf(w, "  %-6s %s\n", name, text)
		}
	}
	show("token", f.Token)
	show("password", f.Password)
	if f.RuntimeFile != "" {
		fmt.Fprintf(w, "  file   %s\n", f.RuntimeFile)
	}
	if f.Doubt {
		fmt.Fprintln(w, "  note   the log has no address yet; using Jupyter's own file on the node")
	}
	for _, o := range f.Others {
		fmt.Fprintf(w, "  also   %s: %s\n", o.Name, o.summary())
	}
	for _, n := range f.notes {
		verb := "found"
		if n.ignored {
			verb = "ignored"
		}
		fmt.Fprintf(w, "  %-9s %s: %s\n", n.at, verb, n.text)
	}
}

// reachWords are the ways to an endpoint in words.
var reachWords = map[api.Reach]string{
	api.ReachLogin: "reached from the login node", api.ReachNode: "reached from its own node", api.ReachHere: "on the login node itself",
}

// summary is the finding in one line.
func (f Finding) summary() string {
	if !f.Found {
		return "nothing found: " + f.Why
	}
	text := cmp.Or(f.App, "a server") + " at "
	switch {
	case f.Link != "":
		text += f.Link
	case f.Socket != "":
		text += "the unix socket " + f.Socket
	case f.Port == 0:
		text += fmt.Sprintf("%s://%s, port unknown, path %s", f.Scheme, f.Host, f.Path)
	default:
		text += fmt.Sprintf("%s://%s%s", f.Scheme, f.Address(), f.Path)
	}
	if way := reachWords[f.Reach]; way != "" {
		text += ", " + way
	}
	if f.NeedsNode {
		text += ", on the node of the job"
	}
	if f.Guess {
		text += " (a guess)"
	}
	if f.Ended {
		text += " (ended)"
	}
	return text
}

// note is a remark about one line of a log. It holds no secret.
type note struct {
	at      position
	text    string
	ignored bool // ignored, rather than found
}

// maxNotes bounds the remarks kept of a log: half of them from its beginning, half
// from its end, where the last server is.
const maxNotes = 40

type noteList []note

// found notes a line that counts.
func (l *noteList) found(s statement, more string) {
	text := s.desc
	if where := s.addr.String(); where != "" {
		text += ": " + where
	}
	if more != "" {
		text += "; " + more
	}
	l.add(note{at: s.at, text: text})
}

// ignored notes a line that does not count.
func (l *noteList) ignored(s statement, why string) {
	text := why
	if where := s.addr.String(); where != "" {
		text = where + ": " + why
	}
	l.add(note{at: s.at, text: text, ignored: true})
}

func (l *noteList) add(n note) {
	n.text = api.NewRemoteText(n.text).FirstLine(240).String()
	if slices.ContainsFunc(*l, func(o note) bool { return o.text == n.text && o.ignored == n.ignored }) {
		return
	}
	if len(*l) == maxNotes {
		*l = slices.Delete(*l, maxNotes/2, maxNotes/2+1)
	}
	*l = append(*l, n)
}

// ParseRuntimeFile reads the file that a Jupyter server writes once it listens:
// jpserver-PID.json or nbserver-PID.json; or that of another app, which our own jobs write.
func ParseRuntimeFile(data []byte) (api.Endpoint, error) {
	var file struct {
		App      string `json:"app"`  // Jupyter's has none
		User     string `json:"user"` // neither
		URL      string `json:"url"`
		Hostname string `json:"hostname"`
		Port     int    `json:"port"`
		Sock     string `json:"sock"`
		Secure   bool   `json:"secure"`
		BaseURL  string `json:"base_url"`
		Token    string `json:"token"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return api.Endpoint{}, fmt.Errorf("runtime file: %w", err)
	}
	if file.App != "" && appRank(file.App) < 0 {
		return api.Endpoint{}, fmt.Errorf("runtime file: unknown app %q", file.App)
	}
	e := api.Endpoint{
		App: cmp.Or(file.App, appJupyter), Scheme: "http", Host: file.Hostname, Port: file.Port, Socket: file.Sock,
		Path: cmp.Or(file.BaseURL, "/"), Token: api.NewSecret(file.Token),
	}
	if e.App == appCodeServer || e.App == appRStudio { // it is for their login page
		e.User, e.Password, e.Token = file.User, e.Token, api.Secret{}
	}
	if file.Secure || strings.HasPrefix(file.URL, "https:") {
		e.Scheme = "https"
	}
	if e.Socket != "" {
		e.Host, e.Port = "", 0
	} else if e.Port <= 0 || e.Port > 65535 {
		return api.Endpoint{}, errors.New("runtime file: no port in it")
	}
	e.Reach, e.NeedsNode = reachOf(address{host: e.Host, socket: e.Socket})
	return e, nil
}

// reachOf is how a server that is bound to an address is reached.
func reachOf(a address) (reach api.Reach, needsNode bool) {
	switch {
	case a.socket != "" || a.kind() == loopbackHost:
		return api.ReachNode, true
	case a.kind() == namedHost:
		return api.ReachLogin, false
	}
	return api.ReachLogin, true
}

// WithRuntime returns the finding corrected by the server's runtime file, which counts
// more than everything in the log; see the order in resolve.go. What the file cannot
// know is kept: a reverse tunnel's port, the name of the node when the server listens
// on every address, and the page below the base URL.
func (f Finding) WithRuntime(e api.Endpoint) Finding {
	f.Found, f.Doubt, f.Guess = true, false, false
	f.App, f.Token, f.Scheme = e.App, e.Token, e.Scheme
	if !e.Password.IsZero() {
		f.User, f.Password = e.User, e.Password
	}
	if !f.Token.IsZero() || !f.Password.IsZero() {
		f.Exposure = ""
	}
	if base := strings.TrimSuffix(e.Path, "/"); !strings.HasPrefix(f.Path, base+"/") && f.Path != base {
		f.Path = e.Path
	}
	f.Path = cmp.Or(f.Path, "/")
	why := "port and token from the runtime file"
	switch {
	case e.Socket != "":
		f.Socket, f.Host, f.Port, f.Reach, f.NeedsNode = e.Socket, "", 0, e.Reach, true
		why = "socket and token from the runtime file"
	case f.Reach == api.ReachHere && f.Port != 0:
		why = "token from the runtime file"
	default:
		f.Socket, f.Port = "", e.Port
		if (address{host: f.Host}).kind() != namedHost || !e.NeedsNode || e.Reach == api.ReachNode {
			f.Host, f.Reach, f.NeedsNode = e.Host, e.Reach, e.NeedsNode
		}
	}
	if f.Why != "" {
		why += "; before that: " + f.Why
	}
	f.Why = why
	return f
}
