package detect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// App is an app from the config: patterns with the named groups host, port, token,
// path and scheme, which are tried on every line of the log.
type App struct {
	Name     string
	Patterns []*regexp.Regexp
}

// The known apps. These are the values of `app =` of a session.
const (
	appJupyter     = "jupyter"
	appRStudio     = "rstudio"
	appCodeServer  = "code-server"
	appTunnel      = "vscode-tunnel"
	appMarimo      = "marimo"
	appPluto       = "pluto"
	appNoVNC       = "novnc"
	appVNC         = "vnc"
	appCommand     = "command" // a person's own program, started by a job of ours
	appStreamlit   = "streamlit"
	appGradio      = "gradio"
	appBokeh       = "bokeh"
	appTensorBoard = "tensorboard"
	appMLflow      = "mlflow"
	appDask        = "dask"
	appRay         = "ray"
	appSpark       = "spark"
	appWeb         = "http" // any other web server: offered, never opened unasked
)

// appsByRank is the order in which a log that announces several apps is resolved:
// apps to work in, then pages to look at, then dashboards of a computation, then any
// web server.
var appsByRank = []string{
	appJupyter, appRStudio, appCodeServer, appTunnel, appMarimo, appPluto, appNoVNC, appVNC,
	appCommand,
	appStreamlit, appGradio, appBokeh,
	appTensorBoard, appMLflow, appDask, appRay, appSpark,
	appWeb,
}

// Apps are the names of the known apps, those first that people most likely want.
func Apps() []string { return slices.Clone(appsByRank) }

// appRank is an app's place in that order; apps from the config come before all.
func appRank(app string) int { return slices.Index(appsByRank, app) }

// isWorkApp reports whether people work in the app, as in those up to VNC.
func isWorkApp(app string) bool { return appRank(app) <= appRank(appVNC) }

// appWords are the words by which a line names an app.
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

// misleadingRules come first: no other rule is tried on a line that matches.
var misleadingRules = []rule{
	{act: misleads, needle: "jupyterhub", desc: "JupyterHub's own address, not a notebook's", re: lazyPattern(`JupyterHub is now running at ` + urlPattern)},
	{act: misleads, needle: "hub api listening", desc: "JupyterHub's own address, not a notebook's", re: lazyPattern(`Hub API listening (?:on|at) ` + urlPattern)},
	{act: misleads, needle: "configproxy", desc: "the proxy of JupyterHub", re: lazyPattern(`\[ConfigProxy\].*` + urlPattern)},
	{act: misleads, needle: "--logdir", desc: "advice on how to start TensorBoard", re: lazyPattern(`tensorboard --logdir.*` + urlPattern)},
	{act: misleads, needle: "distributed.", desc: "a worker's page, not the scheduler's", re: lazyPattern(`distributed\.(?:worker|nanny)\b.*(?:dashboard|bokeh) at:`)},
	{act: misleads, needle: "public url", desc: "a public link through the maker's own service", re: lazyPattern(`(?i)running on public URL:\s*` + urlPattern)},
	{act: misleads, needle: "external url", desc: "the address as the Internet would see it", re: lazyPattern(`External URL:\s*` + urlPattern)},
}

// workRules are of apps to work in.
var workRules = []rule{
	{app: appTunnel, act: announces, needle: "vscode.dev/tunnel/", desc: "the tunnel's link", re: lazyPattern(`(?P<url>https://(?:insiders\.)?vscode\.dev/tunnel/\S+)`)},
	{app: appCodeServer, act: announces, needle: "server listening on", desc: ownURL, re: lazyPattern(`\binfo\s+HTTPS? server listening on (?:` + urlPattern + `|(?P<socket>/\S+))`)},
	{app: appCodeServer, act: announces, needle: "web ui available at", desc: ownURL, re: lazyPattern(`^\W*(?:\[.*\]\s*)?Web UI available at ` + urlPattern)},
	{app: appPluto, act: announces, needle: "go to http", desc: ownURL, re: lazyPattern(`Go to ` + urlPattern + ` (?:in your browser )?to start writing`)},
	{app: appPluto, act: announces, needle: "have fun", desc: ownURL, re: lazyPattern(urlPattern + `.* have fun`)},
	{app: appMarimo, act: announces, needle: "access_token=", desc: ownURL, re: lazyPattern(`(?P<url>https?://[^/\s]+:\d+/?\S*[?&]access_token=\S*)`)},
	{app: appMarimo, act: marks, needle: "➜", re: lazyPattern(`➜\s+URL:`)}, // Vite's line is "➜  Local:"
	{app: appMarimo, act: announces, needle: "➜", near: appMarimo, desc: ownURL, re: lazyPattern(`➜\s+(?:URL|Network):\s+` + urlPattern)},
	{
		app: appRStudio, act: announces, needle: "rstudio", desc: "the RStudio port named by the job script",
		re: lazyPattern(`(?i)\bRStudio(?: Server)? is (?:now )?(?:running|listening) on port (?P<port>\d+)`),
	},
	{needle: "discovered", needsApp: true, read: readDiscovered},
}

// pageRules are of pages to look at.
var pageRules = []rule{
	{app: appStreamlit, act: marks, needle: "your streamlit app", re: lazyPattern(`view your Streamlit app`)},
	{app: appStreamlit, act: announces, needle: "network url:", desc: ownURL, re: lazyPattern(`\bNetwork URL:\s+` + urlPattern)},
	{app: appStreamlit, act: announces, needle: "local url:", desc: ownURL, re: lazyPattern(`\bLocal URL:\s+` + urlPattern)},
	{app: appStreamlit, act: announces, needle: "url:", near: appStreamlit, desc: ownURL, re: lazyPattern(`\bURL:\s+` + urlPattern)},
	{app: appGradio, act: announces, needle: "running on local url:", desc: ownURL, re: lazyPattern(`Running on local URL:\s+` + urlPattern)},
	{app: appGradio, act: announces, needle: "running locally at:", desc: ownURL, re: lazyPattern(`Running locally at:\s+` + urlPattern)},
	{app: appBokeh, act: announces, needle: "app running at:", desc: ownURL, re: lazyPattern(`(?:Bokeh|Panel) app running at:\s+` + urlPattern)},
	{app: appBokeh, act: announces, needle: "launching server at", desc: ownURL, re: lazyPattern(`Launching server at ` + urlPattern)},
}

// dashboardRules are of dashboards of a computation.
var dashboardRules = []rule{
	{app: appTensorBoard, act: announces, needle: "tensorboard", desc: ownURL, re: lazyPattern(`\bTensorBoard(?: b?'?[\w.+-]+'?)? at ` + urlPattern)},
	{app: appMLflow, act: marks, needle: "mlflow", re: lazyPattern(`\[MLflow\]|mlflow\.(?:server|store|cli)|mlflow (?:ui|server)\b|^mlflow\S*\s+\|`)},
	{app: appMLflow, act: announces, needle: "listening at: ", near: appMLflow, desc: ownURL, re: lazyPattern(`Listening at: ` + urlPattern)},
	{app: appMLflow, act: announces, needle: "uvicorn running on", near: appMLflow, desc: ownURL, re: lazyPattern(`Uvicorn running on ` + urlPattern)},
	{needle: "scheduler at:", read: readDaskScheduler},
	{needle: "dashboard at:", read: readDaskDashboard},
	{needle: "bokeh at:", read: readDaskDashboard},
	{app: appDask, act: announces, needle: "/status", desc: "a link to the dashboard", re: lazyPattern(`(?i)\bdashboard\b.*?(?P<url>https?://[^/\s]+:\d+/status\b)`)},
	{app: appRay, act: announces, needle: "dashboard at", desc: ownURL, re: lazyPattern(`(?i)view the (?:ray )?dashboard at (?:(?P<scheme>https?)://)?(?P<host>` + hostPattern + `):(?P<port>\d+)`)},
	{app: appSpark, act: announces, needle: "and started at", desc: ownURL, re: lazyPattern(`Bound (?:SparkUI|MasterWebUI|HistoryServer) to \S+, and started at ` + urlPattern)},
	{app: appSpark, act: announces, needle: "web ui available at", desc: ownURL, re: lazyPattern(`Spark context Web UI available at ` + urlPattern)},
	{app: appSpark, act: announces, needle: "started service '", desc: "the port of Spark's page", re: lazyPattern(`started service '(?:SparkUI|MasterUI|HistoryServerUI)' on port (?P<port>\d+)`)},
}

// webRules are of any other web server.
var webRules = []rule{
	{app: appWeb, act: announces, needle: "uvicorn running on", desc: ownURL, re: lazyPattern(`Uvicorn running on ` + urlPattern)},
	{app: appWeb, act: announces, needle: "running on http", desc: ownURL, re: lazyPattern(`\bRunning on ` + urlPattern)},
	{app: appWeb, act: announces, needle: "listening at: ", desc: ownURL, re: lazyPattern(`\[INFO\] Listening at: ` + urlPattern)},
	{app: appWeb, act: announces, needle: "serving http on", desc: ownURL, re: lazyPattern(`Serving HTTPS? on (?P<host>\S+) port (?P<port>\d+)`)},
	{app: appWeb, act: announces, needle: "development server at", desc: ownURL, re: lazyPattern(`Starting development server at ` + urlPattern)},
	{app: appWeb, act: announces, needle: "listening on", desc: ownURL, re: lazyPattern(`(?i)(?:^|\b(?:server|app|api|service|now)(?: is)? )listening on:? ` + urlPattern)},
	{app: appWeb, act: announces, needle: "msg=\"listening on ", desc: ownURL, re: lazyPattern(`msg="Listening on ` + wherePattern)},
	{app: appWeb, act: announces, needle: "to see the gui go to:", desc: ownURL, re: lazyPattern(`To see the GUI go to: ` + urlPattern)},
	{app: appWeb, act: announces, needle: "open h2o flow", desc: ownURL, re: lazyPattern(`Open H2O Flow in your web browser: ` + urlPattern)},
	{app: appWeb, act: marks, needle: "access matlab at", re: lazyPattern(`(?i)\baccess matlab at:?\s*$`)},
	{app: appWeb, act: marks, needle: "is running at:", re: lazyPattern(`(?i)\bvoil\S+ is running at:\s*$`)},
	{app: appWeb, act: announces, needle: "://", near: appWeb, desc: ownURL, re: lazyPattern(`^\s*` + urlPattern + `\s*$`)},
	{app: appWeb, act: announces, needle: "is running", desc: ownURL, re: lazyPattern(`(?i)\b(?:server|app|application|service|dash|ui|gui|voil.|interface) is (?:now )?running (?:on|at):? ` + urlPattern)},
}

// discovered matches the line of Open OnDemand's scripts when a server's port is open.
var discovered = regexp.MustCompile(`(?i)\bDiscovered .* listening on port (?P<port>\d+)`)

func readDiscovered(r *reader, l logLine) {
	if addr, ok := l.match(discovered); ok {
		r.ev.addOwn(statement{at: l.at, app: l.app, addr: addr, desc: "the portal's script, which has seen the port open"})
	}
}

// Dask's scheduler prints its own address and that of its dashboard, which is often
// only a port:
//
//	distributed.scheduler - INFO -   Scheduler at:   tcp://10.201.0.91:8786
//	distributed.scheduler - INFO -   dashboard at:                     :8787
var (
	daskScheduler = regexp.MustCompile(`Scheduler at:\s+\w+://(?P<host>` + hostPattern + `):\d+`)
	daskDashboard = regexp.MustCompile(`(?:dashboard|bokeh) at:\s+(?:(?P<scheme>https?)://)?(?P<host>` + hostPattern + `)?:(?P<port>\d+)(?P<path>/\S+)?`)
)

func readDaskScheduler(r *reader, l logLine) {
	if m := daskScheduler.FindStringSubmatch(l.text); m != nil {
		r.daskHost = strings.Clone(m[1])
	}
}

func readDaskDashboard(r *reader, l logLine) {
	if addr, ok := l.match(daskDashboard); ok {
		addr.host = cmp.Or(addr.host, r.daskHost)
		addr.path = cmp.Or(addr.path, "/status")
		r.ev.addOwn(statement{at: l.at, app: appDask, addr: addr, desc: ownURL})
	}
}
