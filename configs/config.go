// Package configs is the config file: its schema, its reading, writing and watching.
// Reading is strict and tells all problems of a file at once, each with its
// line, its column and what was expected, since the file is written by hand by
// people who have other work to do.
//
// It is a leaf: it says what a person wrote and decides nothing. What the words
// mean (which patterns an app has, where a relative path leads, what a host's
// settings are) is up to those who read a Config.
package configs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	_ "embed"
)

// maxSize is the largest file that is read, in bytes. A config is a page or two;
// a larger file is another one, given by mistake.
const maxSize = 1 << 20

// Example is a config file that shows every key, each explained.
//
//go:embed example.toml
var Example string

// Config is what a config file says.
type Config struct {
	Path      string
	Notify    Notify
	SSHConfig string // read in place of ~/.ssh/config: a whole path, or "none"
	Hosts     []Host // these and the following are in the order of the file
	Sessions  []Session
	Apps      []App
}

// Load reads the config file at path. Its problems are Errors; a file that is not
// there is fs.ErrNotExist.
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

// readFile reads just enough of a file to tell that it is too large.
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

// load reads a config from data, as far as that is possible.
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

// result is the config, or all that is wrong with it.
func (l *loader) result() (*Config, error) {
	if err := l.src.err(); err != nil {
		return nil, err
	}
	return &l.config, nil
}

// checkText reports a file that is no text at all, of which the TOML parser would
// have a lot to say that helps nobody.
func checkText(src *source) bool {
	switch {
	case len(src.data) > maxSize:
		src.complainWhole("is this the right file?", "the file is larger than %d MB", maxSize>>20)
	case bytes.HasPrefix(src.data, []byte("\xFF\xFE")), bytes.HasPrefix(src.data, []byte("\xFE\xFF")):
		src.complainWhole("save it as UTF-8", "the file is written in UTF-16")
	case !utf8.Valid(src.data):
		at := invalidUTF8(src.data)
		src.complain(span{at, at + 1}, "save the file as UTF-8", "the byte 0x%02x is not valid UTF-8", src.data[at])
	case bytes.IndexByte(src.data, 0) >= 0:
		at := bytes.IndexByte(src.data, 0)
		src.complain(span{at, at + 1}, "is this the right file?", "the file contains a zero byte, so it is not a text file")
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

// Host returns the host of that name. One that is not in the file is an alias of
// ~/.ssh/config, or an address.
func (c *Config) Host(name string) Host {
	if i := slices.IndexFunc(c.Hosts, func(h Host) bool { return h.Name == name }); i >= 0 {
		return c.Hosts[i]
	}
	return Host{Name: name, SSH: name}
}
