package detect

import (
	"regexp"
	"slices"
	"strings"
)

// App is a person's own app: patterns with the named groups host, port, token,
// path and scheme, tried on every line of the log.
type App struct {
	Name     string
	Patterns []*regexp.Regexp
}

// The apps we know. Their names are what `app =` of a session takes.
const (
	appJupyter     = "jupyter"
	appRStudio     = "rstudio"
	appCodeServer  = "code-server"
	appTunnel      = "vscode-tunnel"
	appMarimo      = "marimo"
	appPluto       = "pluto"
	appNoVNC       = "novnc"
	appVNC         = "vnc"
	appStreamlit   = "streamlit"
	appGradio      = "gradio"
	appBokeh       = "bokeh"
	appTensorBoard = "tensorboard"
	appMLflow      = "mlflow"
	appDask        = "dask"
	appRay         = "ray"
	appSpark       = "spark"
	appWeb         = "http" // some web server: offered, never opened by itself
)

// appsByRank is whom to believe to be what a person came for, when one log
// announces several: places to work in, then pages made to be looked at, then
// dashboards that come along with a computation, then any web server.
var appsByRank = []string{
	appJupyter, appRStudio, appCodeServer, appTunnel, appMarimo, appPluto, appNoVNC, appVNC,
	appStreamlit, appGradio, appBokeh,
	appTensorBoard, appMLflow, appDask, appRay, appSpark,
	appWeb,
}

// Apps are the names of the apps we know, those first that people mean most often.
func Apps() []string { return slices.Clone(appsByRank) }

// appRank is an app's place in that order; a person's own app comes before all.
func appRank(app string) int { return slices.Index(appsByRank, app) }

// appWords are the words by which a line tells which app it speaks of.
var appWords = []struct{ word, app string }{
	{"jupyter", appJupyter},
	{"ipython notebook", appJupyter},
	{"rstudio", appRStudio},
	{"rserver", appRStudio},
	{"code-server", appCodeServer},
	{"code server", appCodeServer},
	{"tensorboard", appTensorBoard},
	{"streamlit", appStreamlit},
	{"marimo", appMarimo},
	{"pluto", appPluto},
	{"vnc", appVNC},
	{"mlflow", appMLflow},
	{"gradio", appGradio},
}

// passRules are lines that look like an announcement and are none; they come
// first, and end the reading of their line.
var passRules = []rule{
	{act: passes, needle: "jupyterhub", said: "JupyterHub's own address, not a notebook's", re: regexp.MustCompile(`JupyterHub is now running at ` + urlPattern)},
	{act: passes, needle: "hub api listening", said: "JupyterHub's own address, not a notebook's", re: regexp.MustCompile(`Hub API listening (?:on|at) ` + urlPattern)},
	{act: passes, needle: "configproxy", said: "the proxy of JupyterHub", re: regexp.MustCompile(`\[ConfigProxy\].*` + urlPattern)},
	{act: passes, needle: "--logdir", said: "advice on how to start TensorBoard", re: regexp.MustCompile(`tensorboard --logdir.*` + urlPattern)},
	{act: passes, needle: "distributed.", said: "a worker's page, not the scheduler's", re: regexp.MustCompile(`distributed\.(?:worker|nanny)\b.*(?:dashboard|bokeh) at:`)},
	{act: passes, needle: "public url", said: "a public link through the maker's own service", re: regexp.MustCompile(`(?i)running on public URL:\s*` + urlPattern)},
	{act: passes, needle: "external url", said: "the address as the Internet would see it", re: regexp.MustCompile(`External URL:\s*` + urlPattern)},
}

// workRules are places to work in.
var workRules = []rule{
	{app: appTunnel, act: announces, needle: "vscode.dev/tunnel/", said: "the tunnel's link", re: regexp.MustCompile(`(?P<url>https://(?:insiders\.)?vscode\.dev/tunnel/\S+)`)},
	{app: appCodeServer, act: announces, needle: "server listening on", said: ownURL, re: regexp.MustCompile(`\binfo\s+HTTPS? server listening on (?:` + urlPattern + `|(?P<socket>/\S+))`)},
	{app: appCodeServer, act: announces, needle: "web ui available at", said: ownURL, re: regexp.MustCompile(`^\W*(?:\[.*\]\s*)?Web UI available at ` + urlPattern)},
	{app: appPluto, act: announces, needle: "go to http", said: ownURL, re: regexp.MustCompile(`Go to ` + urlPattern + ` (?:in your browser )?to start writing`)},
	{app: appPluto, act: announces, needle: "have fun", said: ownURL, re: regexp.MustCompile(urlPattern + `.* have fun`)},
	{app: appMarimo, act: announces, needle: "access_token=", said: ownURL, re: regexp.MustCompile(`(?P<url>https?://[^/\s]+:\d+/?\S*[?&]access_token=\S*)`)},
	{app: appMarimo, act: marks, needle: "➜", re: regexp.MustCompile(`➜\s+URL:`)}, // Vite's line is "➜  Local:"
	{app: appMarimo, act: announces, needle: "➜", near: appMarimo, said: ownURL, re: regexp.MustCompile(`➜\s+(?:URL|Network):\s+` + urlPattern)},
	{
		app: appRStudio, act: announces, needle: "rstudio", said: "the RStudio port named by the job script",
		re: regexp.MustCompile(`(?i)\bRStudio(?: Server)? is (?:now )?(?:running|listening) on port (?P<port>\d+)`),
	},
	{needle: "discovered", named: true, read: readDiscovered},
}

// pageRules are pages made to be looked at.
var pageRules = []rule{
	{app: appStreamlit, act: marks, needle: "your streamlit app", re: regexp.MustCompile(`view your Streamlit app`)},
	{app: appStreamlit, act: announces, needle: "network url:", said: ownURL, re: regexp.MustCompile(`\bNetwork URL:\s+` + urlPattern)},
	{app: appStreamlit, act: announces, needle: "local url:", said: ownURL, re: regexp.MustCompile(`\bLocal URL:\s+` + urlPattern)},
	{app: appStreamlit, act: announces, needle: "url:", near: appStreamlit, said: ownURL, re: regexp.MustCompile(`\bURL:\s+` + urlPattern)},
	{app: appGradio, act: announces, needle: "running on local url:", said: ownURL, re: regexp.MustCompile(`Running on local URL:\s+` + urlPattern)},
	{app: appGradio, act: announces, needle: "running locally at:", said: ownURL, re: regexp.MustCompile(`Running locally at:\s+` + urlPattern)},
	{app: appBokeh, act: announces, needle: "app running at:", said: ownURL, re: regexp.MustCompile(`(?:Bokeh|Panel) app running at:\s+` + urlPattern)},
	{app: appBokeh, act: announces, needle: "launching server at", said: ownURL, re: regexp.MustCompile(`Launching server at ` + urlPattern)},
}

// dashboardRules are pages that come along with a computation.
var dashboardRules = []rule{
	{app: appTensorBoard, act: announces, needle: "tensorboard", said: ownURL, re: regexp.MustCompile(`\bTensorBoard(?: b?'?[\w.+-]+'?)? at ` + urlPattern)},
	{app: appMLflow, act: marks, needle: "mlflow", re: regexp.MustCompile(`\[MLflow\]|mlflow\.(?:server|store|cli)|mlflow (?:ui|server)\b|^mlflow\S*\s+\|`)},
	{app: appMLflow, act: announces, needle: "listening at: ", near: appMLflow, said: ownURL, re: regexp.MustCompile(`Listening at: ` + urlPattern)},
	{app: appMLflow, act: announces, needle: "uvicorn running on", near: appMLflow, said: ownURL, re: regexp.MustCompile(`Uvicorn running on ` + urlPattern)},
	{needle: "scheduler at:", read: readDaskScheduler},
	{needle: "dashboard at:", read: readDaskDashboard},
	{needle: "bokeh at:", read: readDaskDashboard},
	{app: appDask, act: announces, needle: "/status", said: "a link to the dashboard", re: regexp.MustCompile(`(?i)\bdashboard\b.*?(?P<url>https?://[^/\s]+:\d+/status\b)`)},
	{app: appRay, act: announces, needle: "dashboard at", said: ownURL, re: regexp.MustCompile(`(?i)view the (?:ray )?dashboard at (?:(?P<scheme>https?)://)?(?P<host>` + hostPattern + `):(?P<port>\d+)`)},
	{app: appSpark, act: announces, needle: "and started at", said: ownURL, re: regexp.MustCompile(`Bound (?:SparkUI|MasterWebUI|HistoryServer) to \S+, and started at ` + urlPattern)},
	{app: appSpark, act: announces, needle: "web ui available at", said: ownURL, re: regexp.MustCompile(`Spark context Web UI available at ` + urlPattern)},
	{app: appSpark, act: announces, needle: "started service '", said: "the port of Spark's page", re: regexp.MustCompile(`started service '(?:SparkUI|MasterUI|HistoryServerUI)' on port (?P<port>\d+)`)},
}

// webRules are web servers of any kind.
var webRules = []rule{
	{app: appWeb, act: announces, needle: "uvicorn running on", said: ownURL, re: regexp.MustCompile(`Uvicorn running on ` + urlPattern)},
	{app: appWeb, act: announces, needle: "running on http", said: ownURL, re: regexp.MustCompile(`\bRunning on ` + urlPattern)},
	{app: appWeb, act: announces, needle: "listening at: ", said: ownURL, re: regexp.MustCompile(`\[INFO\] Listening at: ` + urlPattern)},
	{app: appWeb, act: announces, needle: "serving http on", said: ownURL, re: regexp.MustCompile(`Serving HTTPS? on (?P<host>\S+) port (?P<port>\d+)`)},
	{app: appWeb, act: announces, needle: "development server at", said: ownURL, re: regexp.MustCompile(`Starting development server at ` + urlPattern)},
	{app: appWeb, act: announces, needle: "listening on", said: ownURL, re: regexp.MustCompile(`(?i)(?:^|\b(?:server|app|api|service|now)(?: is)? )listening on:? ` + urlPattern)},
	{app: appWeb, act: announces, needle: "msg=\"listening on ", said: ownURL, re: regexp.MustCompile(`msg="Listening on ` + wherePattern)},
	{app: appWeb, act: announces, needle: "to see the gui go to:", said: ownURL, re: regexp.MustCompile(`To see the GUI go to: ` + urlPattern)},
	{app: appWeb, act: announces, needle: "open h2o flow", said: ownURL, re: regexp.MustCompile(`Open H2O Flow in your web browser: ` + urlPattern)},
	{app: appWeb, act: marks, needle: "access matlab at", re: regexp.MustCompile(`(?i)\baccess matlab at:?\s*$`)},
	{app: appWeb, act: marks, needle: "is running at:", re: regexp.MustCompile(`(?i)\bvoil\S+ is running at:\s*$`)},
	{app: appWeb, act: announces, needle: "://", near: appWeb, said: ownURL, re: regexp.MustCompile(`^\s*` + urlPattern + `\s*$`)},
	{app: appWeb, act: announces, needle: "is running", said: ownURL, re: regexp.MustCompile(`(?i)\b(?:server|app|application|service|dash|ui|gui|voil.|interface) is (?:now )?running (?:on|at):? ` + urlPattern)},
}

// discovered is how Open OnDemand's scripts tell that they saw a server's port open.
var discovered = regexp.MustCompile(`(?i)\bDiscovered .* listening on port (?P<port>\d+)`)

func readDiscovered(r *reading, l logLine) {
	if m := discovered.FindStringSubmatchIndex(l.text); m != nil {
		r.ev.announce(sighting{
			at: l.at, app: l.app, to: matchedTarget(discovered, l.text, m),
			said: "the portal's script, which has seen the port open",
		})
	}
}

// Dask's scheduler tells its own address and its dashboard's, the latter often as
// a bare port:
//
//	distributed.scheduler - INFO -   Scheduler at:   tcp://10.201.0.91:8786
//	distributed.scheduler - INFO -   dashboard at:                     :8787
var (
	daskScheduler = regexp.MustCompile(`Scheduler at:\s+\w+://(?P<host>` + hostPattern + `):\d+`)
	daskDashboard = regexp.MustCompile(`(?:dashboard|bokeh) at:\s+(?:(?P<scheme>https?)://)?(?P<host>` + hostPattern + `)?:(?P<port>\d+)(?P<path>/\S+)?`)
)

func readDaskScheduler(r *reading, l logLine) {
	if m := daskScheduler.FindStringSubmatch(l.text); m != nil {
		r.daskHost = strings.Clone(m[1])
	}
}

func readDaskDashboard(r *reading, l logLine) {
	m := daskDashboard.FindStringSubmatchIndex(l.text)
	if m == nil {
		return
	}
	s := sighting{at: l.at, app: appDask, to: matchedTarget(daskDashboard, l.text, m), said: ownURL}
	if s.to.host == "" {
		s.to.host = r.daskHost
	}
	if s.to.path == "" {
		s.to.path = "/status"
	}
	r.ev.announce(s)
}
