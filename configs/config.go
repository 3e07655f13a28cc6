// Package configs is the config file: its schema, its reading, writing and watching; and
// the sites and job templates that come with tunctl. Reading is strict and reports all
// problems of a file at once, each with its line, its column and what was expected,
// since people write the file by hand.
//
// It is a leaf: it returns what a person wrote and decides nothing. What that means
// (which patterns an app has, what the settings of a host are) is up to its callers.
package configs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

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

// Load reads the config file at path. Its problems are Errors; a missing file is
// fs.ErrNotExist.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	return Parse(path, data)
}

// HostNames are the hosts that the config is about.
func (c *Config) HostNames() []string {
	names := []string{}
	for _, h := range c.Hosts {
		names = append(names, h.Name)
	}
	for _, s := range c.Sessions {
		if !slices.Contains(names, s.Host) {
			names = append(names, s.Host)
		}
	}
	return names
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
// error, if any, is Errors.
func Parse(name string, data []byte) (*Config, error) { return load(name, data).result() }

// load reads as much of a config as possible.
func load(name string, data []byte) *loader {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // as Windows editors write it
	l := &loader{src: newSource(name, data), config: Config{Path: name}}
	l.src.kinds = []string{"host", "session", "app"}
	if checkText(l.src) {
		readTable(l.src, parseTree(l.src), rootFields(), l)
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

// checkText reports a file that is no text: the messages of the TOML parser would not
// help.
func checkText(src *source) bool {
	switch {
	case len(src.data) > maxSize:
		src.addFileError("is this the right file?", "the file is larger than %d MB", maxSize>>20)
	case bytes.HasPrefix(src.data, []byte("\xFF\xFE")), bytes.HasPrefix(src.data, []byte("\xFE\xFF")):
		src.addFileError("save it as UTF-8", "the file is written in UTF-16")
	case !utf8.Valid(src.data):
		at := invalidUTF8(src.data)
		src.addError(span{at, at + 1}, "save the file as UTF-8", "the byte 0x%02x is not valid UTF-8", src.data[at])
	case bytes.IndexByte(src.data, 0) >= 0:
		at := bytes.IndexByte(src.data, 0)
		src.addError(span{at, at + 1}, "is this the right file?", "the file contains a zero byte, so it is not a text file")
	default:
		return true
	}
	return false
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// Session returns the session of that name.
func (c *Config) Session(name string) (Session, bool) {
	if i := slices.IndexFunc(c.Sessions, func(s Session) bool { return s.Name == name }); i >= 0 {
		return c.Sessions[i], true
	}
	return Session{}, false
}

// Host returns the host of that name. If it is not in the file, it is an alias of
// ~/.ssh/config or an address.
func (c *Config) Host(name string) Host {
	if i := slices.IndexFunc(c.Hosts, func(h Host) bool { return h.Name == name }); i >= 0 {
		return c.Hosts[i]
	}
	return Host{Name: name, SSH: name}
}

// notifyKinds are the kinds of notifications that can be chosen.
func notifyKinds() []string {
	return []string{"ready", "needs-login", "time-limit", "idle", "ended", "link"}
}

// Notify says which notifications a person wants. The zero value allows all.
type Notify struct {
	Off  bool
	Only []string // the kinds that are wanted; none listed means all
}

// Allows reports whether notifications of the kind are wanted.
func (n Notify) Allows(kind string) bool {
	return !n.Off && (len(n.Only) == 0 || slices.Contains(n.Only, kind))
}

// readNotify reads true, false or a list of kinds.
func readNotify(in *input) Notify {
	switch v := in.entry.value; v.kind {
	case unstable.Bool:
		return Notify{Off: v.text == "false"}
	case unstable.Array:
		n := Notify{Off: len(v.items) == 0}
		in.list(func(v value) {
			if kind, ok := in.word(v, notifyKinds()); ok {
				n.Only = append(n.Only, kind)
			}
		})
		return n
	default:
		in.addError(v.at, `write: notify = true, or notify = ["ready", "needs-login"]`,
			"%q must be true, false or a list, not %s", in.entry.key, kindName(v.kind))
		return Notify{}
	}
}
