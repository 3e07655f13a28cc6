package detect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tunctl/internal/api"
)

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
