package configs

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// Session is a [session.NAME] table: what the user starts by name.
type Session struct {
	Name   string
	Host   string   // a [host.NAME], or an alias of ~/.ssh/config
	App    string   // what to look for in the log; empty: any known app; ShellApp: nothing
	Job    string   // adopt a job of this name
	Submit string   // a script on the host, "local:PATH" or "builtin:NAME"
	Args   []string // extra words for the scheduler's submit command
	// With are the answers to the questions of a job that comes with tunctl.
	With    map[string]string
	Prepare string    // for a builtin job: shell lines, or the path of a script on the host, before the server starts
	Command string    // of "builtin:command"
	Workdir string    // where to submit from
	Log     string    // the job's log, or "local:PATH" where it is mounted here; may hold {id}, {name}, {user} and {node}
	Local   int       // the wanted local port; 0: any
	Reach   api.Reach // by default auto
	Keep    bool      // submit again when the job ends by its time limit
	Open    bool      // open the page when it is ready; by default true
	Output  bool      // collect what cells print while their page is closed; by default true
	// Idle is how long nothing may have used the job before the user is told; 0: never.
	Idle time.Duration
	// EndIdle is how long nothing may have used the job before it ends; 0: never.
	EndIdle time.Duration

	Forward          []ForwardSpec // with a job: to the node that it runs on
	ForwardSSHConfig bool          // forward = "ssh_config": those written there
	// Shared lets other users of this computer use the session's forwards.
	Shared     bool
	AllowHosts []string // names that browsers may use besides this computer's own
}

func newSession(name string) Session {
	return Session{Name: name, Reach: api.ReachAuto, Open: true, Output: true}
}

func (s *Session) fields() []field {
	return []field{
		{"host", `"narval"`, text(&s.Host, validHost)},
		{"app", `"jupyter"`, text(&s.App)},
		{"job", `"jupyterlab"`, text(&s.Job)},
		{"submit", `"~/jupyter.sh"`, s.readSubmit},
		{"args", `["--time=2:00:00"]`, texts(&s.Args)},
		{"with", `{ account = "def-x", hours = 2 }`, s.readWith},
		{"prepare", `"~/env.sh"`, shellText(&s.Prepare)},
		{"command", `"` + commandExample + `"`, s.readCommand},
		{"workdir", `"~/notebooks"`, text(&s.Workdir)},
		{"log", `"~/{name}.{id}.log"`, s.readLog},
		{"local", `8888`, number(&s.Local, 1, 65535)},
		{"reach", `"auto"`, word(&s.Reach, api.ReachAuto, api.ReachLogin, api.ReachNode, api.ReachHere)},
		{"keep", `true`, boolean(&s.Keep)},
		{"open", `true`, boolean(&s.Open)},
		{"output", `false`, boolean(&s.Output)},
		{"idle", `"30m"`, period(&s.Idle, 5*time.Minute)},        // a shorter time is not worth a notification
		{"end_idle", `"2h"`, period(&s.EndIdle, 10*time.Minute)}, // a shorter time would end what waits for a coffee
		{"forward", `["5432:db.int:5432"]`, s.readForward},
		{"shared", `true`, boolean(&s.Shared)},
		{"allow_hosts", `["lab.example"]`, texts(&s.AllowHosts, validAllowedHost)},
	}
}

// validAllowedHost is the name of a host, without a port.
var validAllowedHost = matching(`^[^/:*@ ]*$`, "is not a host name")

func (s *Session) readSubmit(in *input) {
	if !in.isLine() {
		return
	}
	name, builtin := strings.CutPrefix(in.text, builtinPrefix)
	switch {
	case strings.TrimSpace(strings.TrimPrefix(name, LocalPrefix)) == "":
		in.src.addError(in.at, `write "local:./jupyter.sh" or "builtin:jupyter"`, "%q has no name after the colon", in.text)
	case builtin && !slices.Contains(BuiltinJobs(), name):
		in.src.addError(in.at, unknownBuiltin(name), "no job %q comes with tunctl", in.text)
	default:
		s.Submit = localOrRemote(in.text)
	}
}

// readWith reads the answers to a job's questions, which the site defines.
func (s *Session) readWith(in *input) {
	if !in.is(unstable.Table, "a table of answers") {
		return
	}
	s.With = map[string]string{}
	for _, n := range in.items {
		answer := &input{n, in.src, "1"}
		empty := n.kind == unstable.String && n.text == "" // in place of the question's default
		if empty || answer.isScalar() {
			s.With[n.key] = n.text
		}
	}
}

func (s *Session) readForward(in *input) {
	if in.kind == unstable.String {
		s.ForwardSSHConfig = in.text == "ssh_config"
		if !s.ForwardSSHConfig {
			in.src.addError(in.at, fmt.Sprintf("write: forward = [%q]", in.text), `"forward" in %s must be a list or "ssh_config"`, in.parent.title())
		}
		return
	}
	in.list(func(v *node) {
		spec, err := ParseForward(v.text)
		if err != nil {
			in.src.wrapError(v.at, err)
			return
		}
		s.Forward = append(s.Forward, spec)
	})
}

// checkSessions checks combinations of keys.
func (l *loader) checkSessions() {
	ports := &localPorts{l.src, map[localPort]*portUse{}}
	for i := range l.config.Sessions {
		s := &l.config.Sessions[i]
		t := l.session(s.Name)
		if t.complete() {
			l.checkSession(t, *s)
		}
		l.checkApp(t, s)
		ports.addSession(t, *s)
	}
}

// hasOrMeans reports whether the session has one of the keys or, mistyped and reported, means it.
func hasOrMeans(t *node, keys ...string) bool {
	known := keysOf(new(Session).fields())
	return slices.ContainsFunc(t.items, func(n *node) bool {
		if slices.Contains(known, n.key) {
			return slices.Contains(keys, n.key)
		}
		near := suggest.Nearest(n.key, known)
		return len(near) > 0 && slices.Contains(keys, near[0])
	})
}

// checkSession reports keys that a session lacks, or that do not go together.
func (l *loader) checkSession(t *node, s Session) {
	has := func(key string) bool { return t.byKey[key] != nil }
	key := func(key string) span { return t.get(key).keyAt }
	value := func(key string) span { return t.get(key).at }
	hasJob := has("job") || has("submit")
	isBuiltin := strings.HasPrefix(t.get("submit").text, builtinPrefix) // known or not
	builtin := jobKindOf(s.Builtin())
	noPage, noPageBuiltin := s.App == ShellApp, builtin.name == ShellApp
	title, host := t.title(), "narval"
	if len(l.config.Hosts) > 0 {
		host = l.config.Hosts[0].Name
	}
	check := func(wrong bool, at span, problem, hint string) {
		if wrong {
			l.src.addError(at, hint, "%s", problem)
		}
	}
	check(!hasOrMeans(t, "host"), t.at, title+" has no host", fmt.Sprintf("add: host = %q", host))
	check(!hasOrMeans(t, "job", "submit", "forward"), t.at, title+" needs a job, submit or forward",
		`add job = "NAME" to find a job, submit = "~/job.sh" to start one, or forward`)
	check(has("end_idle") && !jobKindOf(s.Builtin()).tellsIdle, key("end_idle"), title+" cannot end an idle job: whether it is used is known of builtin:jupyter and builtin:code-server only",
		`remove it, or set submit = "builtin:jupyter"; idle = "2h" tells you that the job is idle`)
	check(has("idle") && !hasJob, key("idle"), title+" has no job that could be idle", `remove it, or add: job = "NAME"`)
	check(s.Keep && !has("submit"), key("keep"), title+" cannot keep a job that it does not submit", `add: submit = "~/job.sh"`)

	check(has("with") && !isBuiltin, key("with"), `"with" works only with a builtin job`, `write: submit = "builtin:jupyter"`)
	check(has("prepare") && !isBuiltin, key("prepare"), `"prepare" works only with a builtin job`, "put the lines into your own script")
	check(has("command") && builtin.name != CommandJob && (!has("submit") || s.Submit != ""), key("command"),
		`"command" works only with submit = "builtin:command"`, `write: submit = "builtin:command"`)
	check(!has("command") && builtin.name == CommandJob, value("submit"), title+" has no command to run",
		fmt.Sprintf("add: command = %q", commandExample))
	check(has("reach") && builtin.open && (s.Reach == api.ReachLogin || s.Reach == api.ReachHere), value("reach"),
		fmt.Sprintf("the page of %q has no password, so it listens on the compute node itself only", s.Submit), `remove it, or write: reach = "node"`)

	check(has("app") && !noPage && noPageBuiltin, value("app"),
		fmt.Sprintf("%q serves nothing to look for in its log", s.Submit), `write: app = "shell"`)
	check(noPage && builtin.name != "" && !noPageBuiltin, value("app"),
		fmt.Sprintf(`%q serves a page, and app = "shell" is for a session without one`, s.Submit), `write: submit = "builtin:shell", or remove app`)
	check(noPage && s.Job == "" && s.Submit == "", value("app"), title+" has no job to run a shell in", `add: submit = "builtin:shell"`)
	check(has("local") && (noPage || noPageBuiltin), key("local"), title+" has no page, so it has no local port",
		`remove it; "forward" is for ports of the job`)
	if forward := t.byKey["forward"]; forward != nil && hasJob {
		l.checkJobForwards(forward, s)
	}
}

// checkJobForwards rejects the forwards that lead from or to the login node, in a session
// with a job: its forwards lead to the node that the job runs on.
func (l *loader) checkJobForwards(forward *node, s Session) {
	title := forward.parent.title()
	hint := fmt.Sprintf("move it to a session of its own: [%s]", dottedKey("session", s.Name+"-ports"))
	if s.ForwardSSHConfig {
		l.src.addError(forward.at, hint, "%s has a job, and the forwards of the ssh config are from the login node", title)
	}
	for _, item := range forward.items {
		if spec, err := ParseForward(item.text); err == nil && spec.Kind == api.ForwardRemote {
			l.src.addError(item.at, hint, "%s has a job, and %q would listen on the login node", title, item.text)
		}
	}
}

// fromScheduler converts the placeholders of sbatch to ours.
var fromScheduler = strings.NewReplacer("%j", "{id}", "%x", "{name}", "%u", "{user}", "%N", "{node}")

// readLog reads the path of a job's log, which may contain placeholders.
func (s *Session) readLog(in *input) {
	if !in.isLine() {
		return
	}
	if ours := fromScheduler.Replace(in.text); ours != in.text {
		in.src.addError(in.at, fmt.Sprintf("write: log = %q", ours), "scheduler placeholders are not supported here")
		return
	}
	if path, here := strings.CutPrefix(in.text, LocalPrefix); here && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
		in.src.addError(in.at, `write "local:/mnt/home/{name}.{id}.log"`, "%q is not an absolute path", path)
		return
	}
	s.Log = localOrRemote(in.text)
	for _, m := range logPlaceholder.FindAllStringSubmatch(in.text, -1) {
		if text, closed := m[0], m[2] != ""; !closed {
			in.src.addError(in.src.within(in.at, text), "", "the placeholder has no closing }")
			return
		}
		in.placeholder(m[1], "", "id", "name", "user", "node")
	}
}

// logPlaceholder matches a placeholder, or one that has no end.
var logPlaceholder = regexp.MustCompile(`\{([^}]*)(\}?)`)

// ValidSessionName reports whether a session may have that name.
func ValidSessionName(name string) bool { return validName.MatchString(name) }

// LogDiffers reports whether the log of each job has a path of its own.
func LogDiffers(log string) bool {
	return strings.Contains(log, "{id}") || strings.Contains(log, "{name}")
}

// App is an [app.NAME] table: how the user's own program announces its address in its
// log.
type App struct {
	Name string
	// Patterns match lines of the log. Their results are combined; their groups are named
	// host, port, token, path and scheme.
	Patterns []*regexp.Regexp
}

// ShellApp is the app of a session whose job serves no page: the user works inside the job
// itself, by a shell or an editor.
const ShellApp = api.AppShell

// appAliases are other names of apps.
var appAliases = map[string]string{
	"jupyterlab": "jupyter", "jupyter-lab": "jupyter", "lab": "jupyter", "notebook": "jupyter", "jupyter-notebook": "jupyter",
	"desktop": "novnc",
}

// checkApp reports an unknown app: the session would never be ready. The user's own app
// has precedence over an alias of its name.
func (l *loader) checkApp(t *node, s *Session) {
	if b := jobKindOf(s.Builtin()); s.App == "" && b.alone {
		s.App = b.app
	}
	known := append(api.Apps(), ShellApp)
	if s.App == "" || slices.Contains(known, s.App) || l.root.get("app").byKey[s.App] != nil {
		return
	}
	if name, ok := appAliases[s.App]; ok {
		s.App = name
		return
	}
	if l.src.full() {
		return // no need to compare with all apps
	}
	known = append(each(l.config.Apps, func(a App) string { return a.Name }), known...)
	hint := cmp.Or(didYouMean(s.App, append(known, slices.Sorted(maps.Keys(appAliases))...)),
		fmt.Sprintf("available: %s; or add a section [%s] with patterns", strings.Join(known, ", "), dottedKey("app", s.App)))
	l.src.addError(t.byKey["app"].at, hint, "unknown app %q", s.App)
}

func newApp(name string) App { return App{Name: name} }

func (a *App) check(in *input) {
	if a.Name == ShellApp {
		in.src.addError(in.at, "choose another name for your own app", "%q is the app of sessions without a page", a.Name)
	}
	in.requires("patterns", a.fields()[0].example)
}

func (a *App) fields() []field {
	return []field{{"patterns", `['http://(?P<host>\S+):(?P<port>\d+)']`, a.readPatterns}}
}

// readPatterns reads the patterns of an app. At least one must match the address; others may
// match the token on another line.
func (a *App) readPatterns(in *input) {
	hasAddress := false
	in.list(func(v *node) {
		if re := in.pattern(v, v.text, "host", "port", "token", "path", "scheme"); re != nil {
			hasAddress = hasAddress || re.SubexpIndex("port") >= 0 || re.SubexpIndex("host") >= 0
			a.Patterns = append(a.Patterns, re)
		}
	})
	if !hasAddress && len(a.Patterns) == len(in.items) { // else one was reported
		in.fail(in.node, "no pattern of %s has a group named port or host", in.parent.title())
	}
}

// pattern reads a pattern that may have these groups; nil if it is not valid.
func (in *input) pattern(v *node, text string, groups ...string) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		in.src.addError(v.at, "patterns are Go regular expressions: https://pkg.go.dev/regexp/syntax", "bad pattern: %s", reason)
		return nil
	}
	valid := re
	for _, group := range re.SubexpNames() {
		if group != "" && !slices.Contains(groups, group) {
			in.src.addError(in.src.within(v.at, "<"+group+">"), didYouMean(group, groups),
				"unknown group %q: a pattern's groups are %s", group, alternatives(groups))
			valid = nil
		}
	}
	return valid
}

// localPorts are the local ports of all sessions, to find those that are used twice.
type localPorts struct {
	src   *source
	first map[localPort]*portUse
}

// localPort is a port of an interface; see interfaceOf. That of no interface is used first by
// any of them.
type localPort struct{ on, port string }

type portUse struct {
	at span
	by string // a table's title
}

// addSession adds every local port of a session.
func (p *localPorts) addSession(t *node, s Session) {
	if s.Local != 0 {
		p.add("127.0.0.1", strconv.Itoa(s.Local), t.byKey["local"].at, t.title())
	}
	for _, item := range t.get("forward").items {
		spec, err := ParseForward(item.text)
		if err != nil || spec.Kind == api.ForwardRemote || spec.PicksPort() {
			continue
		}
		if host, port, err := net.SplitHostPort(spec.Listen); err == nil { // else a unix socket
			p.add(host, port, item.at, t.title())
		}
	}
}

// add adds a use of a port, unless an earlier one excludes it.
func (p *localPorts) add(host, port string, at span, by string) {
	on, use := interfaceOf(host), &portUse{at, by}
	ever := p.first[localPort{"", port}]
	first := cmp.Or(p.first[localPort{"any", port}], p.first[localPort{on, port}])
	if on == "any" {
		first = ever
	}
	switch {
	case first == nil:
		p.first[localPort{on, port}], p.first[localPort{"", port}] = use, cmp.Or(ever, use)
	case first.by == by:
		p.src.addError(at, "", "%s uses local port %s twice, first on line %d", by, port, p.src.lineNumber(first.at))
	default:
		p.src.addError(at, "use a different port", "%s uses local port %s, which %s on line %d uses too",
			by, port, first.by, p.src.lineNumber(first.at))
	}
}

// interfaceOf is the same for all addresses of one interface.
func interfaceOf(host string) string {
	switch host {
	case "127.0.0.1", "::1", "localhost":
		return "loopback"
	case "", "0.0.0.0", "::":
		return "any"
	}
	return host
}
