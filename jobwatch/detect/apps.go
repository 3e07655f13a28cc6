package detect

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// App is an app from the config: patterns with the named groups host, port, token,
// path and scheme, which are tried on every line of the log.
type App struct {
	Name     string
	Patterns []*regexp.Regexp
}

// The known apps that more than rules are about; see api.Apps.
const (
	appJupyter    = "jupyter"
	appRStudio    = "rstudio"
	appCodeServer = "code-server"
	appTunnel     = "vscode-tunnel"
	appNoVNC      = "novnc"
	appVNC        = "vnc"
	appParaView   = "paraview"
	appCommand    = "command" // the user's own program, started by a job of ours
	appStreamlit  = "streamlit"
	appDask       = "dask"
	appWeb        = "http" // any other web server: offered, never opened unasked
)

var appsByRank = api.Apps()

// appRank is an app's place in the order of api.Apps; apps from the config come before all.
func appRank(app string) int { return slices.Index(appsByRank, app) }

// servesPage reports whether a known app is a page at an address of its own. To connect to
// ParaView's server in order to see that would end it.
func servesPage(app string) bool {
	return appRank(app) >= 0 && app != appTunnel && app != appVNC && app != appParaView
}

// isWorkApp reports whether people work in the app, as in those up to ParaView.
func isWorkApp(app string) bool { return appRank(app) <= appRank(appParaView) }

// appNameRules notice which app the log is about, so that a hint such as `ssh -L 8787:node:8787` is known to
// be about RStudio.
var appNameRules = []rule{
	{needle: "theia", names: appWeb}, // whose lines name its plugin for Jupyter, too
	{needle: "jupyter", names: appJupyter},
	{needle: "ipython notebook", names: appJupyter},
	{needle: "rstudio", names: appRStudio},
	{needle: "rserver", names: appRStudio},
	{needle: "code-server", names: appCodeServer},
	{needle: "code server", names: appCodeServer},
	{needle: "tensorboard", names: "tensorboard"},
	{needle: "streamlit", names: appStreamlit},
	{needle: "marimo", names: "marimo"},
	{needle: "pluto", names: "pluto"},
	{needle: "vnc", names: appVNC},
	{needle: "mlflow", names: "mlflow"},
	{needle: "gradio", names: "gradio"},
}

// misleadingRules come first: no other rule is tried on a line that matches.
var misleadingRules = []rule{
	{act: misleads, needle: "jupyterhub", desc: "JupyterHub's own address, not a notebook's", re: `JupyterHub is now running at ` + urlPattern},
	{act: misleads, needle: "hub api listening", desc: "JupyterHub's own address, not a notebook's", re: `Hub API listening (?:on|at) ` + urlPattern},
	{act: misleads, needle: "configproxy", desc: "the proxy of JupyterHub", re: `\[ConfigProxy\].*` + urlPattern},
	{act: misleads, needle: "--logdir", desc: "advice on how to start TensorBoard", re: `tensorboard --logdir.*` + urlPattern},
	{act: misleads, needle: "distributed.", desc: "a worker's page, not the scheduler's", re: `distributed\.(?:worker|nanny)\b.*(?:dashboard|bokeh) at:`},
	{act: misleads, needle: "public url", desc: "a public link through the maker's own service", re: `(?i)running on public URL:\s*` + urlPattern},
	{act: misleads, needle: "external url", desc: "the address as the Internet would see it", re: `External URL:\s*` + urlPattern},
}

// workRules are of apps to work in.
var workRules = []rule{
	{app: appTunnel, act: announces, needle: "vscode.dev/tunnel/", desc: "the tunnel's link", re: `(?P<url>https://(?:insiders\.)?vscode\.dev/tunnel/\S+)`},
	{app: appCodeServer, act: announces, needle: "server listening on", desc: ownURL, re: `\binfo\s+HTTPS? server listening on (?:` + urlPattern + `|(?P<socket>/\S+))`},
	{app: appCodeServer, act: announces, needle: "web ui available at", desc: ownURL, re: `^\W*(?:\[.*\]\s*)?Web UI available at ` + urlPattern},
	{app: "pluto", act: announces, needle: "go to http", desc: ownURL, re: `Go to ` + urlPattern + ` (?:in your browser )?to start writing`},
	{app: "pluto", act: announces, needle: "have fun", desc: ownURL, re: urlPattern + `.* have fun`},
	{app: "marimo", act: announces, needle: "access_token=", desc: ownURL, re: `(?P<url>https?://[^/\s]+:\d+/?\S*[?&]access_token=\S*)`},
	{app: "marimo", act: marks, needle: "➜", re: `➜\s+URL:`}, // Vite's line is "➜  Local:"
	{app: "marimo", act: announces, needle: "➜", near: "marimo", desc: ownURL, re: `➜\s+(?:URL|Network):\s+` + urlPattern},
	{app: appRStudio, act: announces, needle: "rstudio", desc: "the RStudio port named by the job script", re: `(?i)\bRStudio(?: Server)? is (?:now )?(?:running|listening) on port (?P<port>\d+)`},
	{needle: "password", read: readRStudioLogin},
	{needle: "user: ", read: readRStudioLogin},
	{needle: "username: ", read: readRStudioLogin},
	{app: "matlab", act: announces, needle: "mwi_auth_token=", desc: ownURL, re: `(?P<url>https?://\S+[?&]mwi_auth_token=\S+)`},
	{app: "matlab", act: announces, needle: "access matlab at", desc: ownURL, re: `(?i)\baccess matlab at:?\s+` + urlPattern},
	{app: "matlab", act: announces, needle: "accessed at", desc: ownURL, re: `(?i)\bMATLAB\b.*\baccessed at:?\s+` + urlPattern},
	{app: "matlab", act: marks, needle: "accessed at", re: `(?i)\bMATLAB\b.*\baccessed at:?[\s│|]*$`},
	{app: "matlab", act: marks, needle: "access matlab at", re: `(?i)\baccess matlab at:?[\s│|]*$`},
	{app: "matlab", act: announces, needle: "://", near: "matlab", desc: ownURL, re: `^[\s│|]*` + urlPattern + `[\s│|]*$`},
	// It speaks a protocol of its own, to one client: https://docs.paraview.org, "Remote and parallel visualization".
	{app: appParaView, act: announces, needle: "connection url:", desc: "the address for ParaView's client", re: `Connection URL: (?P<scheme>cs)://(?P<host>` + hostPattern + `):(?P<port>\d+)`},
	// Of Open OnDemand's scripts.
	{act: announces, needle: "discovered", needsApp: true, desc: "the portal's script, which has seen the port open", re: `(?i)\bDiscovered .* listening on port (?P<port>\d+)`},
}

// pageRules are of pages to look at.
var pageRules = []rule{
	{app: appStreamlit, act: marks, needle: "your streamlit app", re: `view your Streamlit app`},
	{app: appStreamlit, act: announces, needle: "network url:", desc: ownURL, re: `\bNetwork URL:\s+` + urlPattern},
	{app: appStreamlit, act: announces, needle: "local url:", desc: ownURL, re: `\bLocal URL:\s+` + urlPattern},
	{app: appStreamlit, act: announces, needle: "url:", near: appStreamlit, desc: ownURL, re: `\bURL:\s+` + urlPattern},
	{app: "gradio", act: announces, needle: "running on local url:", desc: ownURL, re: `Running on local URL:\s+` + urlPattern},
	{app: "gradio", act: announces, needle: "running locally at:", desc: ownURL, re: `Running locally at:\s+` + urlPattern},
	{app: "bokeh", act: announces, needle: "app running at:", desc: ownURL, re: `(?:Bokeh|Panel) app running at:\s+` + urlPattern},
	{app: "bokeh", act: announces, needle: "launching server at", desc: ownURL, re: `Launching server at ` + urlPattern},
	{app: "vite", act: marks, needle: "➜", re: `➜\s+Local:`},
	{app: "vite", act: announces, needle: "➜", desc: ownURL, re: `➜\s+Local:\s+` + urlPattern},
	{app: "vite", act: announces, needle: "➜", near: "vite", desc: ownURL, re: `➜\s+Network:\s+` + urlPattern},
	{app: "nextjs", act: marks, needle: "next.js", re: `\bNext\.js v?\d+\.`},
	{app: "nextjs", act: announces, needle: "- local:", near: "nextjs", desc: ownURL, re: `- Local:\s+` + urlPattern},
	{app: "nextjs", act: announces, needle: "- network:", near: "nextjs", desc: ownURL, re: `- Network:\s+` + urlPattern},

	// Servers of language models, which programs talk to.
	{app: "vllm", act: announces, needle: "starting vllm api server", desc: ownURL, re: `Starting vLLM API server(?: \d+)?(?: \([^)]*\))? on ` + urlPattern},
	{app: "ollama", act: announces, needle: "msg=\"listening on ", desc: ownURL, re: `msg="Listening on ` + bindPattern + ` \(version `},

	// Dashboards of a computation.
	{app: "tensorboard", act: announces, needle: "tensorboard", desc: ownURL, re: `\bTensorBoard(?: b?'?[\w.+-]+'?)? at ` + urlPattern},
	{app: "mlflow", act: marks, needle: "mlflow", re: `\[MLflow\]|mlflow\.(?:server|store|cli)|mlflow (?:ui|server)\b|^mlflow\S*\s+\|`},
	{app: "mlflow", act: announces, needle: "listening at: ", near: "mlflow", desc: ownURL, re: `Listening at: ` + urlPattern},
	{app: "mlflow", act: announces, needle: "uvicorn running on", near: "mlflow", desc: ownURL, re: `Uvicorn running on ` + urlPattern},
	{needle: "scheduler at:", read: readDaskScheduler},
	{needle: "dashboard at:", read: readDaskDashboard},
	{needle: "bokeh at:", read: readDaskDashboard},
	{app: appDask, act: announces, needle: "/status", desc: "a link to the dashboard", re: `(?i)\bdashboard\b.*?(?P<url>https?://[^/\s]+:\d+/status\b)`},
	{app: "ray", act: announces, needle: "dashboard at", desc: ownURL, re: `(?i)view the (?:ray )?dashboard at (?:(?P<scheme>https?)://)?(?P<host>` + hostPattern + `):(?P<port>\d+)`},
	{app: "spark", act: announces, needle: "and started at", desc: ownURL, re: `Bound (?:SparkUI|MasterWebUI|HistoryServer) to \S+, and started at ` + urlPattern},
	{app: "spark", act: announces, needle: "web ui available at", desc: ownURL, re: `Spark context Web UI available at ` + urlPattern},
	{app: "spark", act: announces, needle: "spark", desc: ownURL, re: `(?i)(?:^|[^d\s:]\s+)spark (?:web )?ui (?:is )?(?:available |running |ready )?(?:at|on):? ` + urlPattern},
	{app: "spark", act: announces, needle: "started service '", desc: "the port of Spark's page", re: `started service '(?:SparkUI|MasterUI|HistoryServerUI)' on port (?P<port>\d+)`},
}

// webRules are of any other web server.
var webRules = []rule{
	{
		act: misleads, needle: "://", desc: "an address for programs, not for people",
		re: `(?i)\b(?:workers?|clients?|callbacks?|redirect\w*|oauth|webhooks?|proxy|metrics|prometheus|connect(?:ing|ed)|waiting|download\w*|fetch\w*|grpc|nanny|upstream|example|e\.g\.)\b.*` + urlPattern,
	},
	{app: appWeb, act: announces, needle: "uvicorn running on", desc: ownURL, re: `Uvicorn running on ` + urlPattern},
	{app: appWeb, act: announces, needle: "uvicorn running on", desc: ownURL, re: `Uvicorn running on socket \('(?P<host>[^']+)', (?P<port>\d+)\)`},
	{app: appWeb, act: announces, needle: "- local:", desc: ownURL, re: `^\s*- Local:\s+` + urlPattern + `\s*$`},
	{app: appWeb, act: announces, needle: "running on http", desc: ownURL, re: `\bRunning on ` + urlPattern},
	{app: appWeb, act: announces, needle: "listening at: ", desc: ownURL, re: `\[INFO\] Listening at: ` + urlPattern},
	{app: appWeb, act: announces, needle: "serving http on", desc: ownURL, re: `Serving HTTPS? on (?P<host>\S+) port (?P<port>\d+)`},
	{app: appWeb, act: announces, needle: "development server at", desc: ownURL, re: `Starting development server at ` + urlPattern},
	{app: appWeb, act: announces, needle: "listening on", desc: ownURL, re: `(?i)(?:^|\b(?:server|app|api|service|now)(?: is)? )listening on:? ` + urlPattern},
	{app: appWeb, act: announces, needle: "msg=\"listening on ", desc: ownURL, re: `msg="Listening on ` + bindPattern},
	{app: appWeb, act: announces, needle: "to see the gui go to:", desc: ownURL, re: `To see the GUI go to: ` + urlPattern},
	{app: appWeb, act: announces, needle: "open h2o flow", desc: ownURL, re: `Open H2O Flow in your web browser: ` + urlPattern},
	{app: appWeb, act: marks, needle: "is running at:", re: `(?i)\bvoil\S+ is running at:\s*$`},
	{app: appWeb, act: announces, needle: "://", near: appWeb, desc: ownURL, re: `^\W*` + ownHostURL + `[\s│|]*$`},
	{app: appWeb, act: announces, needle: "is running", desc: ownURL, re: `(?i)\b(?:server|app|application|service|dash|ui|gui|voil.|interface) is (?:now )?running (?:on|at):? ` + urlPattern},
}

// invitationRules are of servers of no known app that invite to their page, in whatever words, at an address of the node. They come
// last, and not on lines that name an app.
var invitationRules = []rule{
	{app: appWeb, act: announces, needle: "://", unnamed: true, desc: "an invitation to a page", re: `(?i)` + invitation + `:?\s+<?` + ownHostURL},
	{app: appWeb, act: marks, unnamed: true, needle: " at", re: `(?i)` + invitation + `:?\s*$`},
	{app: appWeb, act: marks, unnamed: true, needle: "browser", re: `(?i)` + invitation + `:?\s*$`},
}

const (
	// invitation is what such a line says before the address.
	invitation = `\b(?:(?:running|available|accessible|reachable|served?|serving|ready|hosted|listening|started|live|view(?:ed)?|visit|browse|access(?:ed)?|open(?:ed)?|up)\b(?: [\w'-]+){0,4}? (?:at|on|via|in|from|under|to|browser)|(?:go|navigate|browse|head(?: over)?) to|open|visit|point (?:your|a|the) (?:web )?browser (?:at|to)|in (?:your|a|the) (?:web )?browser)`
	// ownHostURL is a URL with a port on loopback, on any address, or on a node by its short name.
	ownHostURL = `(?P<url>https?://(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\]|[A-Za-z][A-Za-z0-9-]*):\d{2,5}\S*)`
)

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

// builtinJobRules read the line by which the jobs that come with tunctl announce their server,
// before it starts:
//
//	tunctl: novnc will be at http://n003:12345/vnc.html (password in /home/ann/.tunctl/job.7/server.json)
//	tunctl: tensorboard will be at http://127.0.0.1:12345/tensorboard/
//
// The page asks for a password only if the line names a file.
var builtinJobRules = []rule{{needle: "tunctl: ", read: readBuiltinJob}}

var builtinJob = regexp.MustCompile(`\btunctl: ([a-z-]+) will be at (?P<url>http://\S+)(?: \(password in (/.*/server\.json)\))?\s*$`)

func readBuiltinJob(r *reader, l logLine) {
	m := builtinJob.FindStringSubmatch(l.text)
	if m == nil || appRank(m[1]) < 0 {
		return
	}
	addr, _ := l.match(builtinJob)
	app, file := appsByRank[appRank(m[1])], m[3]
	s := statement{at: l.at, app: app, addr: addr, desc: "the job's address", open: file == ""}
	if srv := r.ev.servers[app]; srv != nil && srv.ended == nil && len(srv.own) > 0 && srv.own[0].addr.port != addr.port {
		r.ev.addEnd(statement{at: l.at, app: app, desc: "the job starts the server on another port"})
	}
	r.ev.addOwn(s)
	if file != "" {
		r.ev.setRuntimeFile(app, file, l.at)
	}
}

// RStudio asks for a user and a password. Job scripts, and the images of the Rocker
// project, make a password for each job and print it:
//
//  2. log in to RStudio Server using the following credentials:
//
//     user: ann
//     password: Zm9vYmFyYmF6
//
//     The password is set to Zm9vYmFyYmF6
//
// api.Redact hides the same lines.
var (
	loginUser     = regexp.MustCompile(`(?i)^\W*user(?:name)?:\s+(\S+)\s*$`)
	loginPassword = regexp.MustCompile(`(?i)^\W*password:\s+(\S+)\s*$`)
	setPassword   = regexp.MustCompile(`^The password is set to (\S+)\s*$`)
)

// login is what a server's login page asks for.
type login struct {
	at       position // of the password
	user     string
	password api.Secret
}

func readRStudioLogin(r *reader, l logLine) {
	if m := setPassword.FindStringSubmatch(l.text); m != nil {
		r.setLogin("", m[1], l)
		return
	}
	if r.appNear(l) != appRStudio {
		return
	}
	if m := loginUser.FindStringSubmatch(l.text); m != nil && !isPlaceholder(m[1]) {
		r.loginUser, r.loginUserAt = strings.Clone(m[1]), l.at.line
	}
	if m := loginPassword.FindStringSubmatch(l.text); m != nil {
		user := ""
		if r.loginUser != "" && l.at.line-r.loginUserAt <= nearby {
			user = r.loginUser
		}
		r.setLogin(user, m[1], l)
	}
}

func (r *reader) setLogin(user, password string, l logLine) {
	if isPlaceholder(password) || len(password) > 255 {
		return
	}
	r.ev.setLogin(login{at: l.at, user: user, password: api.NewSecret(strings.Clone(password))})
}

// isPlaceholder reports whether a word stands for a value, as in instructions.
func isPlaceholder(word string) bool {
	return strings.ContainsAny(word, "<>${}") || strings.Trim(word, ".-*_•…") == ""
}

// vncBase is the port of display :0; display :N listens on the Nth after it.
const vncBase = 5900

// vncRules are of VNC servers, whose starters print a display, and of noVNC, whose page
// a browser can open.
var vncRules = []rule{
	{needle: "desktop", read: readVNCDisplay},
	{needle: "vnc display", read: readVNCDisplay},
	{needle: "vnc server", read: readVNCDisplay},
	{app: appNoVNC, act: announces, needle: "/vnc", desc: "noVNC's page", re: `(?P<url>https?://\S+/vnc(?:_lite|_auto)?\.html\S*)`},
	{needle: "- listen on ", read: readWebsockify},
	{needle: "web server. web root", read: readWebRoot},
	{app: appNoVNC, act: announces, needle: "webserver and websockets proxy", path: "/vnc.html", desc: "noVNC's web server", re: `Starting webserver and WebSockets proxy on port (?P<port>\d+)`},
	{app: appVNC, act: announces, needle: "started vnc server on", desc: "the VNC server named by the web portal", re: `Successfully started VNC server on ` + wherePattern},
	{app: appVNC, act: announces, needle: "listening for vnc connections", desc: "the VNC server's own line", re: `Listening for VNC connections on .*port (?P<port>\d+)`},
	{app: appVNC, act: announces, needle: "vnc port", desc: "the VNC port named by the job script", re: `(?i)local \(compute node\) VNC port is (?P<port>\d+)`},
}

// vncDisplay matches how starters print the display:
//
//	New 'n003:1 (ann)' desktop is n003:1
//	New 'n003:1 (ann)' desktop at :1 on machine n003
//	New Xtigervnc server 'n003:1 (ann)' on port 5901 for display :1.
//	Desktop 'TurboVNC: n003:1 (ann)' started on display n003:1
//	got VNC display :1
var vncDisplay = regexp.MustCompile(`(?i)(?:desktop is|desktop at|started on display|the vnc desktop is:|got vnc display|for display)\s+(` + hostPattern + `)?:(\d{1,3})\b(?: on machine (` + hostPattern + `))?`)

func readVNCDisplay(r *reader, l logLine) {
	m := vncDisplay.FindStringSubmatch(l.text)
	if m == nil {
		return
	}
	display, err := strconv.Atoi(m[2])
	if err != nil {
		return
	}
	addr := address{host: cmp.Or(m[1], m[3]), port: vncBase + display}
	r.ev.addOwn(statement{at: l.at, app: appVNC, addr: addr, desc: "the VNC server's display :" + m[2]})
}

// Websockify first prints where it listens, and then whether it also serves a page or
// only relays the websockets of a portal:
//
//	WebSocket server settings:
//	  - Listen on :6080
//	  - Web server. Web root: /opt/noVNC
var websockify = regexp.MustCompile(`- Listen on (?P<host>` + hostPattern + `)?:(?P<port>\d+)`)

func readWebsockify(r *reader, l logLine) {
	if addr, ok := l.match(websockify); ok {
		addr.path = "/vnc.html"
		r.websockify = statement{at: l.at, app: appNoVNC, addr: addr, desc: "noVNC's web server"}
	}
}

func readWebRoot(r *reader, l logLine) {
	if r.websockify.addr.port != 0 && l.at.line-r.websockify.at.line <= nearby {
		r.ev.addOwn(r.websockify)
	}
}

// endRules notice that a server, or its whole job, is over. A server whose last words
// are not known here ends with its job.
var endRules = []rule{
	{act: endsJob, needle: "cancelled at", desc: "Slurm ended the job", re: `\*\*\* (?:JOB|STEP) .*CANCELLED AT`},
	{act: endsJob, needle: "pbs: job killed", desc: "PBS ended the job", re: `=>> PBS: job killed`},
	{act: endsJob, needle: "term_", desc: "LSF ended the job", re: `\bTERM_[A-Z]+: job killed`},
	{
		act: endsJob, needle: "srun:", desc: "Slurm ended the job's step",
		re: `srun: (?:Force Terminated|forcing job termination|Job step aborted|error: \S+: tasks? .*: (?:Killed|Terminated|Exited|Out Of Memory))`,
	},
	{act: endsJob, needle: "memory limit", desc: "Slurm killed the job: memory limit exceeded", re: `slurmstepd.*(?:exceeded memory limit .*being killed|Exceeded job memory limit)`},
	{act: endsJob, needle: "resource usage on", desc: "PBS's closing report", re: `^\s*Resource Usage on \d{4}-`},
	{act: endsJob, needle: "execution finished", desc: "the job script has finished", re: `(?i)\bjob \S+ execution finished`},
	{app: appJupyter, act: ends, needle: "received signal", desc: "the server was told to stop", re: `\] received signal \d+, stopping`},
	{
		app: appJupyter, act: ends, needle: "shutting down", desc: "the server is shutting down",
		re: `(?:App|SingleUser\w*)\b[^\]]*\] .*?\b[Ss]hutting down(?: \d+ (?:kernel|extension|terminal)s?| kernels| on /api/shutdown|\.?$)`,
	},
	{app: appJupyter, act: ends, needle: "shutdown confirmed", desc: "the server was stopped by a user", re: `\] Shutdown confirmed`},
	{app: appJupyter, act: fails, needle: "could not be started", desc: "the server could not start", re: `(?i)ERROR: the (?:notebook|jupyter) server could not be started`},
	{
		app: appJupyter, act: fails, needle: "not found", desc: "Jupyter is not installed",
		re: `(?i)jupyter[\w-]*: (?:command )?not found|command not found: jupyter|Jupyter command .jupyter-[\w-]+. not found|"jupyter[\w-]*": executable file not found`,
	},
	{app: appJupyter, act: fails, needle: "no module named", desc: "Jupyter is not installed", re: `No module named ['"]?(?:jupyter|jupyterlab|notebook)['"]?\s*$`},
	{app: appJupyter, act: fails, needle: "error executing jupyter", desc: "Jupyter is not installed", re: `Error executing Jupyter command`},
	{app: appJupyter, act: fails, needle: "running as root", desc: "Jupyter refuses to run as root", re: `Running as root is not recommended`},
	{app: appDask, act: ends, needle: "scheduler", desc: "the scheduler stops", re: `distributed\.scheduler - INFO - (?:End scheduler|Stopped scheduler|Scheduler closing)`},
	{app: "spark", act: ends, needle: "stopped spark", desc: "the Spark page stops", re: `Stopped Spark web UI at`},
	{app: appStreamlit, act: ends, needle: "stopping...", desc: "Streamlit stops", re: `^\s*Stopping\.\.\.\s*$`},
	{app: "gradio", act: ends, needle: "closing server", desc: "Gradio stops", re: `Keyboard interruption in main thread\.\.\. closing server`},
	{app: appVNC, act: ends, needle: "killing xvnc", desc: "the VNC server was killed", re: `Killing Xvnc process ID \d+`},
	{app: appParaView, act: ends, needle: "exiting...", late: true, desc: "ParaView's server stops", re: `^\s*Exiting\.\.\.\s*$`},
	{app: "pluto", act: ends, needle: "closing pluto", desc: "Pluto stops", re: `Closing Pluto\.\.\.`},
	{act: ends, needle: "killed", needsApp: true, desc: killedWords, re: killed},
	{act: ends, needle: "terminated", needsApp: true, desc: killedWords, re: killed},
	// Uvicorn is vLLM's server, too.
	{app: "vllm", act: ends, needle: "finished server process", late: true, desc: "vLLM stops", re: uvicornEnd},
	{app: appWeb, act: ends, needle: "finished server process", desc: "the web server stops", re: uvicornEnd},
	{app: appWeb, act: ends, needle: "shutting down: master", desc: "the web server stops", re: `Shutting down: Master`},
	{app: appWeb, act: ends, needle: "keyboard interrupt received", desc: "the web server stops", re: `Keyboard interrupt received, exiting`},
}

const uvicornEnd = `Finished server process \[\d+\]`

// killed matches the shell's message about a command that a signal ended:
//
//	/var/spool/slurmd/job7/slurm_script: line 9: 4711 Killed   jupyter lab --no-browser
const killed = `: line \d+:\s+\d+ (?:Killed|Terminated|Segmentation fault|Bus error|Aborted)\b`

const killedWords = "the shell reported that the server died"
