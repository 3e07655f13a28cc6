package joblog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// Read reads a log from its beginning to its current end, in parts of maxRead. The path
// may be a glob, as in FollowOptions.
func Read(ctx context.Context, r remote.Runner, path string, sink func(Chunk)) error {
	f := NewFollower(r, FollowOptions{Paths: []string{path}, Whole: true})
	if err := f.read(ctx, sink); err != nil || f.seen {
		return err
	}
	return notReadable(path)
}

func notReadable(path string) error {
	return api.Errorf(api.CodeNotReady, "cannot read %q on the host: no such file, or no permission", path)
}

// Tail returns the last lines of a log, as a terminal would show them.
func Tail(ctx context.Context, r remote.Runner, path string, lines int) ([]byte, error) {
	_, tail, err := readTail(ctx, r, path, lines)
	return asShown(tail), err
}

// TailPosition is where the last lines of a log begin, for a Follower that begins there.
func TailPosition(ctx context.Context, r remote.Runner, path string, lines int) (Position, error) {
	head, _, err := readTail(ctx, r, path, lines)
	return advance(Position{}, head), err
}

// readTail reads the last lines of a log, and some of what is before them.
func readTail(ctx context.Context, r remote.Runner, path string, lines int) (before Chunk, tail []byte, err error) {
	sh := remote.On(r)
	// The path may be a glob: first find which file it is, and its length.
	file, err := readExisting(ctx, sh, fileRequest{pattern: path})
	if err != nil {
		return Chunk{}, nil, err
	}
	from := max(0, file.size-min(int64(lines)*1024, maxRead))
	file, err = readExisting(ctx, sh, fileRequest{pattern: path, pos: Position{Path: file.path, Offset: from}, max: maxRead})
	if err != nil {
		return Chunk{}, nil, err
	}
	tail = file.data
	if _, whole, cut := bytes.Cut(tail, []byte("\n")); from > 0 && cut && len(whole) > 0 {
		tail = whole // half a line may begin with half a secret, which nobody would recognise
	}
	tail = lastLines(tail, lines)
	return Chunk{Path: file.path, Offset: file.start, Data: file.data[:len(file.data)-len(tail)]}, tail, nil
}

// asShown is text without control sequences. Of a line that was overwritten, as a progress
// bar is, it keeps the last state.
func asShown(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		line = line[bytes.LastIndexByte(line, '\r')+1:]
		out = append(out, api.Sanitize(string(line))...)
		if ended {
			out = append(out, '\n')
		}
	}
	return out
}

func lastLines(data []byte, n int) []byte {
	end := bytes.TrimRight(data, "\n")
	at := len(end)
	for range n {
		at = bytes.LastIndexByte(end[:at], '\n')
		if at < 0 {
			return data
		}
	}
	return data[at+1:]
}

// ReadFile returns a small file, such as the runtime file of a Jupyter server.
func ReadFile(ctx context.Context, r remote.Runner, path string) ([]byte, error) {
	file, err := readExisting(ctx, remote.On(r), fileRequest{pattern: path, max: maxRead})
	if err != nil {
		return nil, err
	}
	if file.size > maxRead {
		return nil, fmt.Errorf("file %q is too large: %d bytes", path, file.size)
	}
	return file.data, nil
}

// Expand replaces {id}, {name}, {user} and {node} in a log pattern of the config file.
// The values are escaped, so that their characters are not a glob's; a placeholder whose
// value is not known yet becomes "*".
func Expand(pattern string, job api.Job, login string) string {
	return strings.NewReplacer(
		"{id}", globEscape(job.ID),
		"{name}", globEscape(job.Name),
		"{user}", globEscape(login),
		"{node}", globEscape(job.Node),
	).Replace(pattern)
}

// NamesJob reports whether the name of a file has the job's number, or all of an id that is
// not a number.
func NamesJob(file, id string) bool {
	name, number := path.Base(file), firstDigits.FindString(id)
	if number == "" {
		return id != "" && strings.Contains(file, id)
	}
	return slices.Contains(digits.FindAllString(name, -1), number)
}

var (
	digits      = regexp.MustCompile(`\d+`)
	firstDigits = regexp.MustCompile(`^\d+`)
)

// fileRequest is a request to read a file from a position on.
type fileRequest struct {
	pattern string
	pos     Position
	max     int
	newer   time.Time
}

// fileContent is what was read: the bytes from start on, of a file of size bytes.
type fileContent struct {
	found       bool
	path        string
	start, size int64
	data        []byte
}

// readFunctions are sh functions that read one file: the newest of the given names, if it is
// new enough. They start a little before the last position; if the file is another one or
// too short, at its beginning.
//
// An NFS client remembers for up to a minute that a file does not exist. Opening the folder
// makes it ask the server again.
const readFunctions = `tunctl_stat() { stat -L -c '%s %Y' "$1" 2>/dev/null || stat -L -f '%z %m' "$1"; }
tunctl_read() {
	tunctl_mark=$1 tunctl_known=$2 tunctl_start=$3 tunctl_need=$4 tunctl_max=$5 tunctl_newer=$6
	shift 6
	tunctl_best=
	for tunctl_f; do
		test -f "$tunctl_f" || true <"${tunctl_f%/*}/"
		if test -f "$tunctl_f" && test -r "$tunctl_f"; then
			if test -z "$tunctl_best" || test "$tunctl_f" -nt "$tunctl_best"; then tunctl_best=$tunctl_f; fi
		fi
	done
	test -n "$tunctl_best" || return 0
	tunctl_s=$(tunctl_stat "$tunctl_best") || return 0
	tunctl_size=${tunctl_s% *}
	test "${tunctl_s#* }" -ge "$tunctl_newer" || return 0
	if test "$tunctl_best" != "$tunctl_known" || test "$tunctl_size" -lt "$tunctl_need"; then tunctl_start=0; fi
	printf '\n%s %s %s %s\n' "$tunctl_mark" "$tunctl_start" "$tunctl_size" "$tunctl_best"
	tail -c +$((tunctl_start + 1)) "$tunctl_best" | head -c "$tunctl_max"
}
`

// readFiles reads several files by one plain command.
func readFiles(ctx context.Context, sh *remote.Shell, requests []fileRequest) ([]fileContent, error) {
	mark := remote.NewMark()
	var script strings.Builder
	script.WriteString(readFunctions)
	for i, a := range requests {
		script.WriteString(a.script(mark + "." + strconv.Itoa(i)))
	}
	script.WriteString("printf '\\n%s end\\n' " + mark)
	res, err := sh.Plain(ctx, script.String())
	if err != nil {
		return nil, err
	}
	return parseRead(res.Stdout, mark, len(requests))
}

func (a fileRequest) script(mark string) string {
	// The literal name has precedence: a path from the scheduler may contain brackets.
	names := posixsh.QuotePath(a.pattern)
	if word := globWord(a.pattern); word != names {
		names = "if test -f " + names + "; then set -- " + names + "; else set -- " + word + "; fi\n"
	} else {
		names = "set -- " + names + "\n"
	}
	start := max(0, a.pos.Offset-int64(len(a.pos.Tail)))
	newer := int64(0)
	if !a.newer.IsZero() {
		// The clocks of file servers and schedulers differ a little.
		newer = a.newer.Unix() - 5
	}
	return names + fmt.Sprintf("tunctl_read %s %s %d %d %d %d \"$@\"\n",
		mark, posixsh.Quote(a.pos.Path), start, a.pos.Offset, a.max+len(a.pos.Tail), newer)
}

func parseRead(out []byte, mark string, n int) ([]fileContent, error) {
	list := make([]fileContent, n)
	parts := bytes.Split(out, []byte("\n"+mark))
	if len(parts) < 2 || !bytes.HasPrefix(parts[len(parts)-1], []byte(" end")) {
		return nil, errors.New("reading a log: the host's answer was cut short")
	}
	for _, part := range parts[1 : len(parts)-1] {
		header, data, _ := bytes.Cut(part, []byte("\n"))
		f := strings.SplitN(string(header), " ", 4)
		c, i := fileContent{found: true, path: f[len(f)-1], data: data}, n
		_, err := fmt.Sscanf(string(header), ".%d %d %d", &i, &c.start, &c.size)
		if err == nil && len(f) == 4 && i >= 0 && i < n {
			list[i] = c
		}
	}
	return list, nil
}

func readOne(ctx context.Context, sh *remote.Shell, a fileRequest) (fileContent, error) {
	list, err := readFiles(ctx, sh, []fileRequest{a})
	if err != nil {
		return fileContent{}, err
	}
	return list[0], nil
}

// readExisting is readOne of a file that must exist.
func readExisting(ctx context.Context, sh *remote.Shell, a fileRequest) (fileContent, error) {
	file, err := readOne(ctx, sh, a)
	if err == nil && !file.found {
		err = notReadable(a.pattern)
	}
	return file, err
}

// searchPattern matches lines that may contain a server's address.
const searchPattern = `https?://|[Ll]isten|[Rr]unning on|[Ss]erving|-L +[^ ]*[0-9]+:[^ ]+:[0-9]+`

// maxSearch is how much of a file is searched on the host. Of a longer one, that is half
// of it at either end: a server announces itself when its job starts, or when it was
// started last.
const maxSearch = 1 << 30

// searchFile searches length bytes of a file from offset on.
func searchFile(ctx context.Context, sh *remote.Shell, path string, offset, length int64, sink func(Chunk)) error {
	if length > maxSearch {
		if err := searchFile(ctx, sh, path, offset, maxSearch/2, sink); err != nil {
			return err
		}
		offset, length = offset+length-maxSearch/2, maxSearch/2
	}
	// It passes on a limited number of lines that match. A log that was emptied while its job writes
	// begins with zeros, and a progress bar's lines end in returns: either would be one line of
	// gigabytes for grep.
	res, err := sh.Plain(ctx, fmt.Sprintf(
		"tail -c +%d %s | head -c %d | LC_ALL=C tr '\\000\\r' '\\n\\n' | LC_ALL=C grep -abE -m 500 -e %s | LC_ALL=C cut -b 1-2048 | head -c 262144",
		offset+1, posixsh.Quote(path), length, posixsh.Quote(searchPattern)))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(res.Stdout) {
		at, text, ok := bytes.Cut(line, []byte(":"))
		if n, err := strconv.ParseInt(string(at), 10, 64); ok && err == nil {
			sink(Chunk{Path: path, Offset: offset + n, Data: text})
		}
	}
	return nil
}

// globSpecial are the characters with a meaning in a pattern.
const globSpecial = `*?[]\`

// globParts are an escaped character, one with a meaning, or other text.
var globParts = regexp.MustCompile(`(?s)\\.|[*?\[\]]|[^*?\[\]\\]+`)

var globCharacter = regexp.MustCompile(`[*?\[\]\\]`)

func globEscape(s string) string {
	if s == "" {
		return "*"
	}
	return globCharacter.ReplaceAllString(s, `\$0`)
}

// globWord turns a pattern into a word of sh in which only *, ? and [] are special. A
// backslash escapes the character after it.
func globWord(pattern string) string {
	word := ""
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		word, pattern = `"$HOME"/`, rest
	}
	for _, part := range globParts.FindAllString(pattern, -1) {
		if !slices.Contains([]string{"*", "?", "[", "]"}, part) {
			part = posixsh.Quote(strings.TrimPrefix(part, `\`))
		}
		word += part
	}
	return word
}
