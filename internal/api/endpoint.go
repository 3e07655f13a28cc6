package api

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Reach is how to get from the login node to an endpoint.
type Reach string

// The ways to reach an endpoint.
const (
	ReachAuto  Reach = "auto"  // found by trying
	ReachLogin Reach = "login" // the login node dials the compute node
	ReachNode  Reach = "node"  // through the compute node, to its loopback
	ReachHere  Reach = "here"  // the port is on the login node itself
)

// Endpoint is where a job serves.
type Endpoint struct {
	App    string `json:"app,omitempty"`
	Scheme string `json:"scheme,omitempty"`
	// Host is as a program on the login node would dial it, or as printed when
	// NeedsNode says that the log cannot know it.
	Host      string `json:"host,omitempty"`
	Port      int    `json:"port,omitempty"`
	Socket    string `json:"socket,omitempty"` // a unix socket, in place of host and port
	Path      string `json:"path,omitempty"`
	Token     Secret `json:"-"`
	Reach     Reach  `json:"reach,omitempty"`
	NeedsNode bool   `json:"needsNode,omitempty"`
	// OpenTo says who else can use the page, if it is known to ask for no token or password.
	OpenTo Audience `json:"openTo,omitempty"`
	// Form says that the token is a password for the page's login form, not a parameter of
	// its address.
	Form bool `json:"form,omitempty"`
	// Guess says that it is some web server, not a recognised one: it is offered, never
	// opened automatically.
	Guess bool `json:"guess,omitempty"`
}

// Audience is who can use a page that asks for no token or password.
type Audience string

// The audiences of such a page.
const (
	OpenToNode    Audience = "node"    // other users of the compute node
	OpenToNetwork Audience = "network" // everyone on the cluster's network
)

// NamedEndpoint is a page that a job serves besides its main one.
type NamedEndpoint struct {
	Name string `json:"name"` // a short word: "dask", "jupyter-2"
	Endpoint
	URL string `json:"url,omitempty"` // on this computer, once it was opened
}

// Title is what a person calls the page: "Dask dashboard".
func (e NamedEndpoint) Title() string {
	title := map[string]string{
		"jupyter": "Jupyter", "rstudio": "RStudio", "code-server": "code-server", "marimo": "marimo", "pluto": "Pluto",
		"novnc": "noVNC", "streamlit": "Streamlit", "gradio": "Gradio", "bokeh": "Bokeh", "tensorboard": "TensorBoard",
		"mlflow": "MLflow", "dask": "Dask dashboard", "ray": "Ray dashboard", "spark": "Spark UI", "http": "web page",
	}[e.App]
	if title == "" {
		return e.Name
	}
	return title + strings.ReplaceAll(strings.TrimPrefix(e.Name, e.App), "-", " ") // with its number
}

// Address is the endpoint's host and port, or its socket.
func (e *Endpoint) Address() string {
	if e.Socket != "" {
		return e.Socket
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
}

// TokenParam is the query parameter that the endpoint's app takes its token from.
func (e *Endpoint) TokenParam() string {
	switch e.App {
	case "marimo":
		return "access_token"
	case "pluto":
		return "secret"
	case "code-server":
		return "tkn"
	}
	return "token"
}

// PageURL is the address of the endpoint's page as the local browser reaches it
// at local ("127.0.0.1:8888"), without its token.
func (e *Endpoint) PageURL(local string) *url.URL {
	scheme := e.Scheme
	if scheme == "" {
		scheme = "http"
	}
	path := e.Path
	if path == "" {
		path = "/"
	}
	return &url.URL{Scheme: scheme, Host: local, Path: path}
}

// formPassword is the name of a password behind the # of an address.
const formPassword = "form-password"

// PageURLWithToken is the address of the page with its token, where the page expects it. What
// is behind the # stays in the browser: noVNC takes its password from there, and a password
// for a login form is there for a person, and for CutPassword.
func (e *Endpoint) PageURLWithToken(local string) string {
	u := e.PageURL(local)
	switch {
	case e.Token.IsZero():
	case e.Form:
		u.Fragment = url.Values{formPassword: {e.Token.Reveal()}}.Encode()
	case e.App == "novnc":
		u.RawQuery, u.Fragment = "autoconnect=1&resize=remote", url.Values{"password": {e.Token.Reveal()}}.Encode()
	default:
		u.RawQuery = url.Values{e.TokenParam(): {e.Token.Reveal()}}.Encode()
	}
	return u.String()
}

// CutPassword separates an address from the password for the login form of its page, if it
// has one.
func CutPassword(address string) (page string, password Secret) {
	page, fragment, _ := strings.Cut(address, "#")
	values, err := url.ParseQuery(fragment)
	if text := values.Get(formPassword); err == nil && text != "" {
		return page, NewSecret(text)
	}
	return address, Secret{}
}
