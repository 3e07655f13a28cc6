// Package configs is the config file: its schema, its reading, writing and watching; and
// the sites and job templates that come with tunctl. Reading is strict and reports all
// problems of a file at once, each with its line, its column and what was expected,
// since people write the file by hand.
//
// It is a leaf: it returns what the user wrote and decides nothing. What that means
// (which patterns an app has, what the settings of a host are) is up to its callers.
package configs

import (
	"fmt"
	"io"
	"os"
	"slices"

	_ "embed"

	"github.com/pelletier/go-toml/v2/unstable"
)

// maxSize is the size of the largest file that is read. A config has a page or two; a
// larger file was given by mistake.
const maxSize = 1 << 20

// example is a config file that shows every key, each explained.
//
//go:embed example.toml
var example string

// Config is the content of a config file.
type Config struct {
	Path      string
	Notify    Notify
	SSHConfig string // read instead of ~/.ssh/config: an absolute path, or "none"
	MCP       MCP
	Hosts     []Host // these and the following are in the order of the file
	Sessions  []Session
	Apps      []App
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

// readFile reads a file, up to one byte more than the largest.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
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
	return &l.config, nil
}

// Session returns the session of that name.
func (c *Config) Session(name string) (Session, bool) {
	return find(c.Sessions, func(s Session) bool { return s.Name == name })
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
