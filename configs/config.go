// Package configs is the config file: its schema, its reading and writing; and
// the sites and job templates that come with tunctl. Reading is strict and reports all
// problems of a file at once, each with its line, its column and what was expected,
// since people write the file by hand.
//
// It is a leaf: it returns what the user wrote and decides nothing. What that means
// (which patterns an app has, what the settings of a host are) is up to its callers.
package configs

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"tunctl/internal/suggest"
)

// maxSize is the size of the largest file that is read. A config has a page or two; a
// larger file was given by mistake.
const maxSize = 1 << 20

// example is a config file that shows every key, each explained.
//
//go:embed example.toml
var example string

// Schema is the JSON Schema of a config file, for editors.
//
//go:embed config.schema.json
var Schema string

// Config is the content of a config file.
type Config struct {
	Path      string
	Notify    Notify
	SSHConfig string // read instead of ~/.ssh/config: an absolute path, or "none"
	MCP       MCP
	Hosts     []Host // these and the following are in the order of the file
	Sessions  []Session
	Apps      []App

	places map[string]int // of the sessions, by name; nil if the config was not read from a file
}

// Load reads the config file at path. Its problems are each an *Error; a missing file is
// fs.ErrNotExist.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	return Parse(path, data)
}

// HostNames are the hosts that the config is about, and the aliases, each once.
func (c *Config) HostNames(aliases ...string) []string {
	names := each(c.Hosts, func(h Host) string { return h.Name })
	names = append(names, each(c.Sessions, func(s Session) string { return s.Host })...)
	return unique(append(names, aliases...))
}

// Parse reads a config from data; name is the file's path, for messages. The
// error, if any, has an *Error for each problem.
func Parse(name string, data []byte) (*Config, error) { return load(name, data).result() }

// load reads as much of a config as possible.
func load(name string, data []byte) *loader {
	l := &loader{src: newSource(name, data, "host", "session", "app"), config: Config{Path: name}}
	if l.src.isText() {
		l.root = parseTree(l.src)
		l.src.readTable(l.root, l.fields())
		l.checkSessions()
	}
	return l
}

// result is the config, or all its problems.
func (l *loader) result() (*Config, error) {
	if err := l.src.err(); err != nil {
		return nil, err
	}
	for i, s := range l.config.Sessions {
		if i == 0 {
			l.config.places = map[string]int{}
		}
		l.config.places[s.Name] = i
	}
	return &l.config, nil
}

// Session returns the session of that name.
func (c *Config) Session(name string) (Session, bool) {
	if c.places == nil {
		return find(c.Sessions, func(s Session) bool { return s.Name == name })
	}
	i, ok := c.places[name]
	if !ok {
		return Session{}, false
	}
	return c.Sessions[i], true
}

// Host returns the host of that name. If it is not in the file, it is an alias of
// ~/.ssh/config or an address.
func (c *Config) Host(name string) Host {
	if h, ok := find(c.Hosts, func(h Host) bool { return h.Name == name }); ok {
		return h
	}
	return aliasHost(name)
}

// notifyKinds are the kinds of notifications that can be chosen.
func notifyKinds() []string {
	return []string{"ready", "needs-login", "time-limit", "idle", "ended", "link"}
}

// Notify says which notifications the user wants. The zero value allows all.
type Notify struct {
	Off  bool
	Only []string // the kinds that are wanted; none listed means all
}

// Allows reports whether notifications of the kind are wanted.
func (n Notify) Allows(kind string) bool {
	return !n.Off && (len(n.Only) == 0 || slices.Contains(n.Only, kind))
}

// read reads true, false or a list of kinds.
func (n *Notify) read(in *input) {
	switch in.kind {
	case unstable.Bool:
		n.Off = in.text == "false"
	case unstable.Array:
		n.Off = len(in.items) == 0
		in.list(func(v *node) {
			if in.oneOf(v, notifyKinds()...) {
				n.Only = append(n.Only, v.text)
			}
		})
	default:
		in.src.addError(in.at, `write: notify = true, or notify = ["ready", "needs-login"]`,
			"%q must be true, false or a list, not %s", in.key, kindName(in.kind))
	}
}

// MCP says what assistants may do through `tunctl mcp`.
type MCP struct {
	// NodeHours is how much the jobs that assistants start within a day may ask for, in
	// all. 0: they start none.
	NodeHours float64
}

func (m *MCP) fields() []field {
	return []field{{"node_hours", `8`, number(&m.NodeHours, 0, 1e6)}}
}

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
	s.addError(n.keyAt, cmp.Or(hint, "available: "+strings.Join(known, ", ")), "unknown key %q%s", n.key, n.where())
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

// LocalPrefix marks a path on this computer instead of the host.
const LocalPrefix = "local:"

// LocalPath expands "~/" in a path on this computer. All local paths of a config are read
// with it; paths on a host are expanded there.
func LocalPath(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path // opening it fails with a clear error
	}
	return filepath.Join(home, rest)
}

// localOrRemote expands a path with the prefix "local:".
func localOrRemote(path string) string {
	if here, ok := strings.CutPrefix(path, LocalPrefix); ok {
		return LocalPrefix + LocalPath(here)
	}
	return path
}

// sshConfigPath is the file of ssh_config, relative to the config's folder, since the
// agent's working directory is arbitrary. "none" is no file, as with ssh -F.
func sshConfigPath(text, config string) string {
	path := LocalPath(text)
	if path == "none" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(config), path)
}

// each returns what f makes of every item.
func each[T, R any](list []T, f func(T) R) []R {
	made := make([]R, len(list))
	for i, item := range list {
		made[i] = f(item)
	}
	return made
}

// find returns the first item that fits, if one does.
func find[T any](list []T, fits func(T) bool) (item T, ok bool) {
	if i := slices.IndexFunc(list, fits); i >= 0 {
		return list[i], true
	}
	return item, false
}

// lastOf keeps of a list the last item of each name, in the place of the first.
func lastOf[T any](list []T, name func(T) string) []T {
	kept := list[:0]
	at := map[string]int{}
	for _, item := range list {
		i, found := at[name(item)]
		if found {
			kept[i] = item
			continue
		}
		at[name(item)] = len(kept)
		kept = append(kept, item)
	}
	return kept
}

// unique keeps the first of equal words.
func unique(words []string) []string { return lastOf(words, func(word string) string { return word }) }
