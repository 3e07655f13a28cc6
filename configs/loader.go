package configs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/suggest"
)

// validName matches the names of hosts, sessions and apps: words that need no quotes in a
// shell, are no option, and can be the name of a file.
var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// loader fills a Config from a file's tree.
type loader struct {
	src      *source
	config   Config
	hosts    []*table // of config.Hosts, in the same order
	sessions []*table // of config.Sessions, in the same order
}

func rootFields() []field[loader] {
	return []field[loader]{
		{"notify", `["ready", "needs-login"]`, func(in *input, l *loader) { l.config.Notify = readNotify(in) }},
		{"ssh_config", `"~/.ssh/config"`, func(in *input, l *loader) {
			if text, ok := in.text(); ok {
				l.config.SSHConfig = sshConfigPath(text, l.config.Path)
			}
		}},
		{"host", "", (*input).hosts},
		{"session", "", (*input).sessions},
		{"app", "", (*input).apps},
		{"mcp", "", setTable(mcpFields, func(l *loader) *MCP { return &l.config.MCP })},
	}
}

func (in *input) hosts(l *loader) {
	in.tables(func(name string, t *table) {
		h := Host{Name: name, SSH: name}
		readTable(in.src, t, hostFields(), &h)
		l.config.Hosts = append(l.config.Hosts, h)
		l.hosts = append(l.hosts, t)
	})
}

func (in *input) sessions(l *loader) {
	in.tables(func(name string, t *table) {
		s := newSession(name)
		readTable(in.src, t, sessionFields(), &s)
		l.config.Sessions = append(l.config.Sessions, s)
		l.sessions = append(l.sessions, t)
	})
}

func (in *input) apps(l *loader) {
	in.tables(func(name string, t *table) {
		a := App{Name: name}
		if name == ShellApp {
			in.addError(t.at, "choose another name for your own app", "%q is the app of sessions without a page", name)
		}
		readTable(in.src, t, appFields(), &a)
		if t.byKey["patterns"] == nil && t.complete() {
			in.addError(t.at, `add: patterns = ['http://(?P<host>\S+):(?P<port>\d+)']`, "%s has no patterns", t.title())
		}
		l.config.Apps = append(l.config.Apps, a)
	})
}

// complete reports whether the whole table was read, so that absent keys are missing.
func (t *table) complete() bool { return !t.damaged && t.origin != implied }

// tables reads [kind.NAME] for every name.
func (in *input) tables(read func(name string, t *table)) {
	kind, v := in.entry.key, in.entry.value
	if v.kind != unstable.Table {
		in.addError(v.at, fmt.Sprintf("write: [%s.NAME]", kind), "%q must be a section, not %s", kind, kindName(v.kind))
		return
	}
	for _, e := range v.table.entries {
		sub := e.value.table
		switch {
		case sub == nil:
			in.addError(e.at, fmt.Sprintf("write: [%s.NAME]", kind), "[%s] needs a name: %q belongs in [%s.NAME]", kind, e.key, kind)
		case !validName.MatchString(e.key):
			in.addError(e.at, "use letters, digits, '.', '_' and '-', and begin with a letter or digit",
				"%q is not a valid %s name", e.key, kind)
		default:
			read(e.key, sub)
		}
	}
}

// unknownKey reports a key or a table that t cannot have.
func unknownKey(src *source, t *table, e *entry, known []string) {
	if sub := e.value.table; sub != nil && (sub.origin == header || sub.origin == implied) {
		unknownTable(src, t, e, known)
		return
	}
	if instead := removedKeys[e.key]; instead != "" {
		src.addError(e.at, instead, "%q%s is no longer supported", e.key, t.where())
		return
	}
	hint := didYouMean(e.key, known)
	if hint == "" && slices.Contains(src.kinds, "session") {
		hint = elsewhere(e.key)
	}
	if hint == "" {
		hint = "available: " + strings.Join(known, ", ")
	}
	src.addError(e.at, hint, "unknown key %q%s", e.key, t.where())
}

// unknownTable reports each table that is written below an unknown key.
func unknownTable(src *source, t *table, e *entry, known []string) {
	sub := e.value.table
	if t.parent != nil {
		// A dot in [session.my.notebook] makes a table in a table.
		quotedName := dottedKey([]string{t.parent.name}) + "." + fmt.Sprintf("%q", t.name+"."+e.key)
		src.addError(sub.at, "a name with a dot needs quotes: ["+quotedName+"]", "unknown section %s", sub.title())
		return
	}
	near := suggest.Nearest(e.key, src.kinds)
	reported := false
	for _, inner := range sub.entries {
		named := inner.value.table
		if named == nil || named.origin != header {
			continue
		}
		hint := src.sections()
		if len(near) > 0 {
			hint = fmt.Sprintf("did you mean [%s]?", dottedKey([]string{near[0], inner.key}))
		}
		src.addError(named.at, hint, "unknown section %s", named.title())
		reported = true
	}
	if !reported {
		src.addError(e.at, didYouMean(e.key, known), "unknown section %s", sub.title())
	}
}

// sections is the hint for a section that is written wrong.
func (s *source) sections() string {
	last := len(s.kinds) - 1
	return "the sections are [" + strings.Join(s.kinds[:last], ".NAME], [") + ".NAME] and [" + s.kinds[last] + ".NAME]"
}

// elsewhere is the hint for a key that is right but in the wrong table.
func elsewhere(key string) string {
	var tables []string
	if slices.Contains(keysOf(hostFields()), key) {
		tables = append(tables, "[host.NAME]")
	}
	if slices.Contains(keysOf(sessionFields()), key) {
		tables = append(tables, "[session.NAME]")
	}
	if slices.Contains(keysOf(appFields()), key) {
		tables = append(tables, "[app.NAME]")
	}
	if slices.Contains([]string{"notify", "ssh_config"}, key) {
		return "this key belongs at the top of the file, above all sections"
	}
	if len(tables) == 0 {
		return ""
	}
	return "this key belongs in " + strings.Join(tables, " or ")
}
