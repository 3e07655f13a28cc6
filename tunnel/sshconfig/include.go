package sshconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// flattener puts a config file and what it includes into one text for
// kevinburke/ssh_config, which refuses a whole file for one unknown Match. It leaves
// those blocks out and warns.
type flattener struct {
	text     strings.Builder
	warnings []string
	block    string // the current Host line; "" before the first
	skipping bool   // inside a Match block that is left out
}

// file appends one file. A missing one is an error only with must.
func (f *flattener) file(path string, must bool, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: Include nests deeper than %d", path, maxInclude)
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		if err := f.line(path, number, strings.TrimRight(line, "\r\n"), depth); err != nil {
			return err
		}
	}
	return nil
}

func (f *flattener) line(path string, number int, line string, depth int) error {
	key, value := splitLine(line)
	switch key {
	case "host":
		f.begin(line)
	case "match":
		f.match(path, number, value)
	case "include":
		if f.skipping {
			return nil
		}
		return f.include(value, depth)
	default:
		if !f.skipping {
			fmt.Fprintln(&f.text, line)
		}
	}
	return nil
}

func (f *flattener) begin(hostLine string) {
	f.block, f.skipping = hostLine, false
	fmt.Fprintln(&f.text, hostLine)
}

// match keeps what a Host line can express.
func (f *flattener) match(path string, number int, criteria string) {
	words := strings.Fields(criteria)
	switch {
	case len(words) == 1 && strings.EqualFold(words[0], "all"):
		f.begin("Host *")
	case len(words) == 2 && (strings.EqualFold(words[0], "host") || strings.EqualFold(words[0], "originalhost")):
		f.begin("Host " + strings.ReplaceAll(words[1], ",", " "))
	default:
		f.skipping = true
		f.warnings = append(f.warnings, fmt.Sprintf("%s:%d: \"Match %s\" is skipped: only the ssh program can read it, and none was found", path, number, criteria))
	}
}

// include appends the files, then returns to the current block.
func (f *flattener) include(value string, depth int) error {
	outer := f.block
	for _, pattern := range strings.Fields(value) {
		pattern = includePath(strings.Trim(pattern, `"`))
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("include %q: %w", pattern, err)
		}
		for _, path := range paths {
			if err := f.file(path, false, depth+1); err != nil {
				return err
			}
			if f.block != outer || f.skipping {
				f.begin(cmp.Or(outer, "Host *"))
				f.block = outer
			}
		}
	}
	return nil
}

// includePath is the path of an Include; relative names are in ~/.ssh.
func includePath(p string) string {
	home, _ := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if !filepath.IsAbs(p) {
		return filepath.Join(home, ".ssh", p)
	}
	return p
}

// splitLine splits "Keyword value", "Keyword=value" or "Keyword = value".
func splitLine(line string) (key, value string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, " \t=")
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", ""
	}
	value = strings.TrimSpace(line[i:])
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	return strings.ToLower(line[:i]), value
}
