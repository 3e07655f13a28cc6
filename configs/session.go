package configs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// Session is a [session.NAME] table: what a person starts by name.
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
	// Idle is how long nothing may have used the job before a person is told; 0: never.
	Idle time.Duration

	Forward          []ForwardSpec // with a job: to the node that it runs on
	ForwardSSHConfig bool          // forward = "ssh_config": those written there
	// Shared lets other users of this computer use the session's forwards.
	Shared     bool
	AllowHosts []string // names that browsers may use besides this computer's own
}

func newSession(name string) Session {
	return Session{Name: name, Reach: api.ReachAuto, Open: true}
}

func sessionFields() []field[Session] {
	return []field[Session]{
		{"host", `"narval"`, func(in *input, s *Session) {
			if text, ok := in.destination(); ok {
				s.Host = text
			}
		}},
		{"app", `"jupyter"`, setText(func(s *Session) *string { return &s.App })},
		{"job", `"jupyterlab"`, setText(func(s *Session) *string { return &s.Job })},
		{"submit", `"~/jupyter.sh"`, (*input).submit},
		{"args", `["--time=2:00:00"]`, (*input).args},
		{"with", `{ account = "def-x", hours = 2 }`, (*input).with},
		{"prepare", `"~/env.sh"`, func(in *input, s *Session) { in.shellText(&s.Prepare) }},
		{"command", `"` + commandExample + `"`, (*input).command},
		{"workdir", `"~/notebooks"`, setText(func(s *Session) *string { return &s.Workdir })},
		{"log", `"~/{name}.{id}.log"`, (*input).log},
		{"local", `8888`, func(in *input, s *Session) { in.port(&s.Local) }},
		{"reach", `"auto"`, setWord(func(s *Session) *api.Reach { return &s.Reach },
			api.ReachAuto, api.ReachLogin, api.ReachNode, api.ReachHere)},
		{"keep", `true`, setFlag(func(s *Session) *bool { return &s.Keep })},
		{"open", `true`, setFlag(func(s *Session) *bool { return &s.Open })},
		{"idle", `"30m"`, (*input).idle},
		{"forward", `["5432:db.int:5432"]`, (*input).forward},
		{"shared", `true`, setFlag(func(s *Session) *bool { return &s.Shared })},
		{"allow_hosts", `["lab.example"]`, (*input).allowHosts},
	}
}

func (in *input) submit(s *Session) {
	text, ok := in.text()
	if !ok {
		return
	}
	for _, prefix := range []string{localPrefix, builtinPrefix} {
		if strings.TrimSpace(strings.TrimPrefix(text, prefix)) == "" {
			in.addError(in.entry.value.at, `write "local:./jupyter.sh" or "builtin:jupyter"`, "%q has no name after the colon", text)
			return
		}
	}
	if name, ok := strings.CutPrefix(text, builtinPrefix); ok && !slices.Contains(BuiltinJobs(), name) {
		in.addError(in.entry.value.at, unknownBuiltin(name), "no job %q comes with tunctl", text)
		return
	}
	s.Submit = localOrRemote(text)
}

// minIdle is the shortest idle time that is worth a notification.
const minIdle = 5 * time.Minute

func (in *input) idle(s *Session) {
	text, ok := in.text()
	if !ok {
		return
	}
	long, err := time.ParseDuration(text)
	switch {
	case err != nil:
		in.addError(in.entry.value.at, `write: idle = "30m", or "1h30m"`, "%q is not a time span", text)
	case long < minIdle:
		in.addError(in.entry.value.at, `write: idle = "30m"`, "an idle time of %q is too short: the least is 5m", text)
	default:
		s.Idle = long
	}
}

func (in *input) args(s *Session) {
	in.list(func(v value) {
		if text, ok := in.line(v); ok {
			s.Args = append(s.Args, text)
		}
	})
}

func (in *input) allowHosts(s *Session) {
	in.list(func(v value) {
		name, ok := in.line(v)
		if !ok {
			return
		}
		if strings.ContainsAny(name, "/:*@ ") {
			in.addError(v.at, `write the name alone, as in "lab.example"`, "%q is not a host name", name)
			return
		}
		s.AllowHosts = append(s.AllowHosts, name)
	})
}

// with reads the answers to a job's questions, which the site defines.
func (in *input) with(s *Session) {
	t := in.entry.value.table
	if t == nil {
		in.mustBe(in.entry.value, "a table of answers")
		return
	}
	s.With = map[string]string{}
	for _, e := range t.entries {
		answer := &input{src: in.src, table: t, entry: e, example: "1"}
		if e.value.kind == unstable.String && e.value.text == "" {
			s.With[e.key] = "" // in place of the question's default
		} else if text, ok := answer.scalar(e.value); ok {
			s.With[e.key] = text
		}
	}
}

func (in *input) forward(s *Session) {
	v := in.entry.value
	if v.kind == unstable.String {
		s.ForwardSSHConfig = v.text == "ssh_config"
		if !s.ForwardSSHConfig {
			in.addError(v.at, fmt.Sprintf("write: forward = [%q]", v.text), `"forward" in %s must be a list or "ssh_config"`, in.table.title())
		}
		return
	}
	in.list(func(v value) {
		spec, err := parseForward(v.text)
		if err != nil {
			in.addError(v.at, err.Hint, "%s", err.Message)
			return
		}
		s.Forward = append(s.Forward, spec)
	})
}

// checkSessions checks combinations of keys.
func (l *loader) checkSessions() {
	ports := &localPorts{src: l.src, byPort: make(map[string][]portUse)}
	for i := range l.config.Sessions {
		s, t := &l.config.Sessions[i], l.sessions[i]
		if t.complete() {
			l.checkSession(t, *s)
		}
		l.checkApp(t, s)
		ports.addSession(t, *s)
	}
}

// submitsBuiltin reports whether the session's submit is for a builtin job, known or not.
func (t *table) submitsBuiltin() bool {
	e := t.byKey["submit"]
	return e != nil && strings.HasPrefix(e.value.text, builtinPrefix)
}

// hasOrMeans reports whether the session has one of the keys or, mistyped and reported, means it.
func (t *table) hasOrMeans(keys ...string) bool {
	known := keysOf(sessionFields())
	return slices.ContainsFunc(t.entries, func(e *entry) bool {
		if slices.Contains(known, e.key) {
			return slices.Contains(keys, e.key)
		}
		near := suggest.Nearest(e.key, known)
		return len(near) > 0 && slices.Contains(keys, near[0])
	})
}

func (l *loader) checkSession(t *table, s Session) {
	if !t.hasOrMeans("host") {
		example := "narval"
		if len(l.config.Hosts) > 0 {
			example = l.config.Hosts[0].Name
		}
		l.src.addError(t.at, fmt.Sprintf("add: host = %q", example), "%s has no host", t.title())
	}
	if !t.hasOrMeans("job", "submit", "forward") {
		l.src.addError(t.at, `add job = "NAME" to find a job, submit = "~/job.sh" to start one, or forward`,
			"%s needs a job, submit or forward", t.title())
	}
	if t.byKey["forward"] != nil && (t.byKey["job"] != nil || t.byKey["submit"] != nil) {
		l.checkJobForwards(t, s)
	}
	if t.byKey["with"] != nil && !t.submitsBuiltin() {
		l.src.addError(t.byKey["with"].at, `write: submit = "builtin:jupyter"`, "\"with\" works only with a builtin job")
	}
	l.checkShell(t, s)
	if t.byKey["idle"] != nil && t.byKey["job"] == nil && t.byKey["submit"] == nil {
		l.src.addError(t.byKey["idle"].at, `remove it, or add: job = "NAME"`, "%s has no job that could be idle", t.title())
	}
	l.checkBuiltin(t, s)
	if s.Keep && t.byKey["submit"] == nil {
		l.src.addError(t.byKey["keep"].at, `add: submit = "~/job.sh"`, "%s cannot keep a job that it does not submit", t.title())
	}
}

// checkShell reports keys that need a page, in a session without one.
func (l *loader) checkShell(t *table, s Session) {
	app, local := t.byKey["app"], t.byKey["local"]
	switch {
	case s.App != ShellApp && s.Builtin() == ShellApp && app != nil:
		l.src.addError(app.value.at, fmt.Sprintf("write: app = %q", ShellApp), "%q serves nothing to look for in its log", s.Submit)
	case s.App == ShellApp && s.Builtin() != "" && s.Builtin() != ShellApp:
		l.src.addError(app.value.at, fmt.Sprintf("write: submit = %q, or remove app", builtinPrefix+ShellApp), "%q serves a page, and app = %q is for a session without one", s.Submit, ShellApp)
	case s.App == ShellApp && s.Job == "" && s.Submit == "":
		l.src.addError(app.value.at, fmt.Sprintf("add: submit = %q", builtinPrefix+ShellApp), "%s has no job to run a shell in", t.title())
	case (s.App == ShellApp || s.Builtin() == ShellApp) && local != nil:
		l.src.addError(local.at, `remove it; "forward" is for ports of the job`, "%s has no page, so it has no local port", t.title())
	}
}

// checkJobForwards rejects the forwards that lead from or to the login node, in a session
// with a job: its forwards lead to the node that the job runs on.
func (l *loader) checkJobForwards(t *table, s Session) {
	forward := t.byKey["forward"]
	hint := fmt.Sprintf("move it to a session of its own: [%s]", dottedKey([]string{"session", s.Name + "-ports"}))
	if s.ForwardSSHConfig {
		l.src.addError(forward.value.at, hint, "%s has a job, and the forwards of the ssh config are from the login node", t.title())
	}
	for _, item := range forward.value.items {
		if spec, bad := parseForward(item.text); bad == nil && spec.Kind == api.ForwardRemote {
			l.src.addError(item.at, hint, "%s has a job, and %q would listen on the login node", t.title(), item.text)
		}
	}
}

// fromScheduler converts the placeholders of sbatch to ours.
var fromScheduler = strings.NewReplacer("%j", "{id}", "%x", "{name}", "%u", "{user}", "%N", "{node}")

func logPlaceholders() []string { return []string{"id", "name", "user", "node"} }

// log reads the path of a job's log, which may contain placeholders.
func (in *input) log(s *Session) {
	text, ok := in.text()
	if !ok {
		return
	}
	at := in.entry.value.at
	if ours := fromScheduler.Replace(text); ours != text {
		in.addError(at, fmt.Sprintf("write: log = %q", ours), "scheduler placeholders are not supported here")
		return
	}
	if path, here := strings.CutPrefix(text, localPrefix); here && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
		in.addError(at, `write "local:/mnt/home/{name}.{id}.log"`, "%q is not an absolute path", path)
		return
	}
	s.Log = localOrRemote(text)
	for {
		_, after, found := strings.Cut(text, "{")
		if !found {
			return
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			in.addError(in.src.within(at, "{"+after), "", "the placeholder has no closing }")
			return
		}
		in.placeholder(at, name)
		text = rest
	}
}

func (in *input) placeholder(at span, name string) {
	if slices.Contains(logPlaceholders(), name) {
		return
	}
	hint := "available: {id}, {name}, {user}, {node}"
	if near := suggest.Nearest(name, logPlaceholders()); len(near) > 0 {
		hint = fmt.Sprintf("did you mean {%s}?", near[0])
	}
	in.addError(in.src.within(at, "{"+name+"}"), hint, "unknown placeholder {%s}", name)
}

// ValidSessionName reports whether a session may have that name.
func ValidSessionName(name string) bool { return validName.MatchString(name) }

// LogDiffers reports whether the log of each job has a path of its own.
func LogDiffers(log string) bool {
	return strings.Contains(log, "{id}") || strings.Contains(log, "{name}")
}
