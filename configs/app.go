package configs

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
)

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
	if s.App == "" {
		switch b := jobKindOf(s.Builtin()); b.name {
		case ShellApp:
			s.App = ShellApp
		case "code-server", "rstudio", "desktop":
			s.App = b.app
		}
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
