package hostkey

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// knownHosts are the known_hosts files of the user and a system. The library refuses a
// whole file for one line that it cannot read; OpenSSH, and this, skip the line.
type knownHosts struct {
	*knownhosts.HostKeyDB
	origins  map[string]string // by the path of a cleaned copy: the original file
	warnings []string
}

// readKnownHosts reads the files that exist. As for OpenSSH, one that cannot be read knows
// no host: the user can still log in, and is asked.
func readKnownHosts(paths []string) (*knownHosts, error) {
	k := &knownHosts{origins: map[string]string{}}
	var files []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			k.warnings = append(k.warnings, fmt.Sprintf("the known_hosts file %s is skipped: %v", path, err))
			continue
		}
		clean, err := k.blankBadLines(path, content)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(clean, content) {
			copied, err := WriteTemp(clean)
			if err != nil {
				return nil, err
			}
			defer func() { _ = os.Remove(copied) }()
			k.origins[copied] = path
			path = copied
		}
		files = append(files, path)
	}
	db, err := knownhosts.NewDB(files...)
	k.HostKeyDB = db
	return k, err
}

// blankBadLines blanks the lines that the library refuses. Line numbers stay. The library
// names only the first such line of a file, so it gets those after that one again.
func (k *knownHosts) blankBadLines(path string, content []byte) ([]byte, error) {
	lines := bytes.Split(content, []byte("\n"))
	for file, good := path, 0; ; {
		_, err := xknownhosts.New(file)
		if file != path {
			_ = os.Remove(file)
		}
		bad, why := firstBad(err, file, lines[good:])
		if bad == 0 {
			return bytes.Join(lines, []byte("\n")), err
		}
		good += bad
		lines[good-1] = nil
		k.warnings = append(k.warnings, fmt.Sprintf("%s:%d is skipped: %s", path, good, why))
		if file, err = WriteTemp(bytes.Join(lines[good:], []byte("\n"))); err != nil {
			return nil, err
		}
	}
}

// firstBad is the number of the line that the library's error is about, and why; 0: it is about none.
func firstBad(err error, file string, lines [][]byte) (number int, why string) {
	if errors.Is(err, bufio.ErrTooLong) {
		return 1 + slices.IndexFunc(lines, func(line []byte) bool { return len(line) >= bufio.MaxScanTokenSize-1 }), err.Error()
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "knownhosts: "+file+":")
		_, _ = fmt.Sscanf(text, "%d:", &number)
		_, why, _ = strings.Cut(text, ": ")
	}
	return number, strings.TrimPrefix(why, "knownhosts: ")
}

// origin is the original of a file that was read as a copy.
func (k *knownHosts) origin(path string) string { return cmp.Or(k.origins[path], path) }

// WriteTemp writes lines of known_hosts to a file, which the caller removes.
func WriteTemp(content []byte) (string, error) {
	f, err := os.CreateTemp("", "known_hosts-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return f.Name(), errors.Join(err, f.Close())
}
