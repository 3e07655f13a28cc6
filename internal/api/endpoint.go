package api

import (
	"cmp"
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
	User      string `json:"user,omitempty"` // for the login page, with Password
	Password  Secret `json:"-"`
	Reach     Reach  `json:"reach,omitempty"`
	NeedsNode bool   `json:"needsNode,omitempty"`
	// Exposure says who else can reach the page, if no token or password for it is known.
	Exposure Exposure `json:"openTo,omitempty"`
	// Guess says that it is some web server, not a recognised one: it is offered, never
	// opened automatically.
	Guess bool `json:"guess,omitempty"`
}

// Exposure is who can reach a page without a known token or password.
type Exposure string

// To whom such a page is open.
const (
	ExposureNode    Exposure = "node"    // other users of the compute node
	ExposureNetwork Exposure = "network" // everyone on the cluster's network
)

// NamedEndpoint is a page that a job serves besides its main one.
type NamedEndpoint struct {
	Name string `json:"name"` // a short word: "dask", "jupyter-2"
	Endpoint
	URL string `json:"url,omitempty"` // on this computer, once it was opened
}

// Title is what the user calls the page: "Dask dashboard".
func (e NamedEndpoint) Title() string {
	title := map[string]string{
		"jupyter": "Jupyter", "rstudio": "RStudio", "matlab": "MATLAB", "paraview": "ParaView", "vite": "Vite", "nextjs": "Next.js",
		"vllm": "vLLM", "ollama": "Ollama", "code-server": "code-server", "marimo": "marimo", "pluto": "Pluto",
		"novnc": "noVNC", "streamlit": "Streamlit", "gradio": "Gradio", "bokeh": "Bokeh", "tensorboard": "TensorBoard",
		"mlflow": "MLflow", "dask": "Dask dashboard", "ray": "Ray dashboard", "spark": "Spark UI", "http": "web page",
	}[e.App]
	if title == "" {
		return e.Name
	}
	return title + strings.ReplaceAll(strings.TrimPrefix(e.Name, e.App), "-", " ") // with its number
}

// Secrets are what must not be shown of the endpoint.
func (e *Endpoint) Secrets() []Secret { return []Secret{e.Token, e.Password} }

// Address is the endpoint's host and port, or its socket.
func (e *Endpoint) Address() string {
	if e.Socket != "" {
		return e.Socket
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
}

// TokenParam is the query parameter that the endpoint's app takes its token from.
func (e *Endpoint) TokenParam() string {
	params := map[string]string{"marimo": "access_token", "pluto": "secret", "code-server": "tkn", "matlab": "mwi_auth_token"}
	return cmp.Or(params[e.App], "token")
}

// TakesOneClient reports whether the endpoint serves the first who connects, and nobody
// after: only the user's own program may connect to it.
func (e *Endpoint) TakesOneClient() bool { return e.Scheme == "cs" } // ParaView's server

// PageURL is the address of the endpoint's page as the local browser reaches it
// at local ("127.0.0.1:8888"), without its token.
func (e *Endpoint) PageURL(local string) *url.URL {
	scheme, path := cmp.Or(e.Scheme, "http"), cmp.Or(e.Path, "/")
	if scheme == "cs" { // as ParaView's client takes it
		path = ""
	}
	return &url.URL{Scheme: scheme, Host: local, Path: path}
}

// Apps are the names of the apps that are recognised in logs, which are the values of `app =` of a
// session, in the order in which a log that announces several is resolved: apps to work in, then
// pages to look at, then models to talk to, then dashboards of a computation, then any web server.
func Apps() []string {
	return []string{
		"jupyter", "rstudio", "matlab", "code-server", "vscode-tunnel", "marimo", "pluto", "novnc", "vnc", "paraview", "command",
		"streamlit", "gradio", "bokeh", "vite", "nextjs", "vllm", "ollama", "tensorboard", "mlflow", "dask", "ray", "spark", "http",
	}
}
