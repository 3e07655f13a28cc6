package hostkey

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
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
		if clean := k.blankBadLines(path, content); !bytes.Equal(clean, content) {
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

// blankBadLines blanks the lines that the library would refuse. Line numbers stay.
func (k *knownHosts) blankBadLines(path string, content []byte) []byte {
	lines := bytes.Split(content, []byte("\n"))
	for i, line := range lines {
		if err := checkKnownLine(string(line)); err != nil {
			k.warnings = append(k.warnings, fmt.Sprintf("%s:%d is skipped: %v", path, i+1, err))
			lines[i] = nil
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

// origin is the original of a file that was read as a copy.
func (k *knownHosts) origin(path string) string { return cmp.Or(k.origins[path], path) }

// checkKnownLine says why the library would refuse a line.
func checkKnownLine(line string) error {
	if len(line) > 60<<10 {
		return errors.New("the line is too long")
	}
	fields := strings.Fields(line)
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return nil
	}
	if fields[0] == "@cert-authority" || fields[0] == "@revoked" {
		fields = fields[1:]
	}
	if len(fields) < 3 {
		return errors.New("the line lacks a name, key type or key")
	}
	if strings.HasPrefix(fields[0], "@") {
		return fmt.Errorf("unknown marker %q", fields[0])
	}
	if err := checkKnownName(fields[0]); err != nil {
		return err
	}
	blob, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return errors.New("the key is not base64")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return fmt.Errorf("the key cannot be read: %w", err)
	}
	if key.Type() != fields[1] {
		return fmt.Errorf("the line says %q, but its key is %q", fields[1], key.Type())
	}
	return nil
}

func checkKnownName(names string) error {
	if strings.HasPrefix(names, "|") {
		parts := strings.Split(names, "|")
		if len(parts) != 4 || parts[1] != "1" {
			return errors.New("the hashed name is malformed")
		}
		for _, p := range parts[2:] {
			if _, err := base64.StdEncoding.DecodeString(p); err != nil {
				return errors.New("the hashed name is malformed")
			}
		}
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		name, negated := strings.CutPrefix(name, "!")
		if negated && name == "" {
			return errors.New("the ! has no name after it")
		}
		if strings.HasPrefix(name, "[") {
			if _, _, err := net.SplitHostPort(name); err != nil {
				return fmt.Errorf("the name %q is malformed", name)
			}
		}
	}
	return nil
}

// WriteTemp writes lines of known_hosts to a file, which the caller removes.
func WriteTemp(content []byte) (string, error) {
	f, err := os.CreateTemp("", "known_hosts-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return f.Name(), errors.Join(err, f.Close())
}
