package configs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/suggest"
)

// validName matches the names of hosts, sessions, apps and jobs: words that need no quotes in a
// shell or a directive, are no option, and can be the name of a file.
var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// loader fills a Config from a file's tree.
type loader struct {
	src    *source
	root   *node
	config Config
}

func (l *loader) fields() []field {
	c := &l.config
	return []field{
		{"notify", `["ready", "needs-login"]`, c.Notify.read},
		{"ssh_config", `"~/.ssh/config"`, func(in *input) {
			if in.isLine() {
				c.SSHConfig = sshConfigPath(in.text, c.Path)
			}
		}},
		{"host", "", named(&c.Hosts, aliasHost, nil)},
		{"session", "", named(&c.Sessions, newSession, nil)},
		{"app", "", named(&c.Apps, newApp, (*App).check)},
		{"mcp", "", table(c.MCP.fields())},
	}
}

// host and session are where these stand in the file.
func (l *loader) host(name string) *node    { return l.root.byKey["host"].byKey[name] }
func (l *loader) session(name string) *node { return l.root.byKey["session"].byKey[name] }

// requires reports a key that a table lacks.
func (in *input) requires(key, example string) {
	if in.byKey[key] == nil && in.complete() {
		in.src.addError(in.at, "add: "+key+" = "+example, "%s has no %s", in.title(), key)
	}
}

// unknownKey reports a key or a table that its table cannot have.
func (s *source) unknownKey(n *node, known []string) {
	if n.kind == unstable.Table && (n.origin == header || n.origin == implied) {
		s.unknownTable(n, known)
		return
	}
	hint := didYouMean(n.key, known)
	if hint == "" && slices.Contains(s.kinds, "session") {
		hint = elsewhere(n.key)
	}
	if hint == "" {
		hint = "available: " + strings.Join(known, ", ")
	}
	s.addError(n.keyAt, hint, "unknown key %q%s", n.key, n.where())
}

// unknownTable reports each table that is written below an unknown key.
func (s *source) unknownTable(n *node, known []string) {
	if t := n.parent; t.parent != nil {
		// A dot in [session.my.notebook] makes a table in a table.
		quotedName := dottedKey(t.parent.key) + "." + fmt.Sprintf("%q", t.key+"."+n.key)
		s.addError(n.at, "a name with a dot needs quotes: ["+quotedName+"]", "unknown section %s", n.title())
		return
	}
	near := suggest.Nearest(n.key, s.kinds)
	named := slices.DeleteFunc(slices.Clone(n.items), func(sub *node) bool { return sub.origin != header })
	for _, sub := range named {
		hint := s.sections()
		if len(near) > 0 {
			hint = fmt.Sprintf("did you mean [%s]?", dottedKey(near[0], sub.key))
		}
		s.addError(sub.at, hint, "unknown section %s", sub.title())
	}
	if len(named) == 0 {
		s.addError(n.keyAt, didYouMean(n.key, known), "unknown section %s", n.title())
	}
}

// sections is the hint for a section that is written wrong.
func (s *source) sections() string {
	last := len(s.kinds) - 1
	return "the sections are [" + strings.Join(s.kinds[:last], ".NAME], [") + ".NAME] and [" + s.kinds[last] + ".NAME]"
}

// elsewhere is the hint for a key that is right but in the wrong table.
func elsewhere(key string) string {
	var found []string
	for _, t := range []struct {
		title  string
		fields []field
	}{{"[host.NAME]", new(Host).fields()}, {"[session.NAME]", new(Session).fields()}, {"[app.NAME]", new(App).fields()}} {
		if slices.Contains(keysOf(t.fields), key) {
			found = append(found, t.title)
		}
	}
	switch {
	case key == "notify", key == "ssh_config":
		return "this key belongs at the top of the file, above all sections"
	case len(found) == 0:
		return ""
	}
	return "this key belongs in " + strings.Join(found, " or ")
}
