package jobwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// ask is a request to read a file from a position.
type ask struct {
	pattern string
	pos     Position
	max     int
	newer   time.Time
}

// got is what was read: the bytes from start on, of a file of size bytes.
type got struct {
	found       bool
	path        string
	start, size int64
	data        []byte
}

// readText defines what reads one file: the newest of the names given, if it is not
// older than allowed. It starts a little before where we stopped, unless the file is
// another or too short, and then at the beginning.
const readText = `tunctl_stat() { stat -L -c '%s %Y' "$1" 2>/dev/null || stat -L -f '%z %m' "$1"; }
tunctl_read() {
	tunctl_mark=$1 tunctl_known=$2 tunctl_start=$3 tunctl_need=$4 tunctl_max=$5 tunctl_newer=$6
	shift 6
	tunctl_best=
	for tunctl_f; do
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
func readFiles(ctx context.Context, sh *shell, asks []ask) ([]got, error) {
	mark := newMark()
	var script strings.Builder
	script.WriteString(readText)
	for i, a := range asks {
		script.WriteString(a.script(mark + "." + strconv.Itoa(i)))
	}
	script.WriteString("printf '\\n%s end\\n' " + mark)
	res, err := sh.plain(ctx, script.String())
	if err != nil {
		return nil, err
	}
	return parseRead(res.Stdout, mark, len(asks))
}

func (a ask) script(mark string) string {
	// The literal name comes first: a path from the scheduler may contain brackets.
	names := quotePath(a.pattern)
	if word := globWord(a.pattern); word != names {
		names = "if test -f " + names + "; then set -- " + names + "; else set -- " + word + "; fi\n"
	} else {
		names = "set -- " + names + "\n"
	}
	start := max(0, a.pos.Offset-int64(len(a.pos.Tail)))
	newer := int64(0)
	if !a.newer.IsZero() {
		// Clocks of file servers and schedulers differ by a little.
		newer = a.newer.Unix() - 5
	}
	return names + fmt.Sprintf("tunctl_read %s %s %d %d %d %d \"$@\"\n",
		mark, quote(a.pos.Path), start, a.pos.Offset, a.max+len(a.pos.Tail), newer)
}

func parseRead(out []byte, mark string, n int) ([]got, error) {
	list := make([]got, n)
	parts := bytes.Split(out, []byte("\n"+mark))
	if len(parts) < 2 || !bytes.HasPrefix(parts[len(parts)-1], []byte(" end")) {
		return nil, errors.New("reading a log: the host's answer was cut short")
	}
	for _, part := range parts[1 : len(parts)-1] {
		header, data, _ := bytes.Cut(part, []byte("\n"))
		f := strings.SplitN(strings.TrimPrefix(string(header), "."), " ", 4)
		if len(f) != 4 {
			continue
		}
		i, err1 := strconv.Atoi(f[0])
		start, err2 := strconv.ParseInt(f[1], 10, 64)
		size, err3 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil || i < 0 || i >= n {
			continue
		}
		list[i] = got{found: true, path: f[3], start: start, size: size, data: data}
	}
	return list, nil
}

// searchPattern matches lines that may say where something serves.
const searchPattern = `https?://|[Ll]isten|[Rr]unning on|[Ss]erving|-L +[^ ]*[0-9]+:[^ ]+:[0-9]+`

// searchFile looks through length bytes of a file from offset on, once and bounded,
// and passes on the lines that match.
func searchFile(ctx context.Context, sh *shell, path string, offset, length int64, sink func(Chunk)) error {
	res, err := sh.plain(ctx, fmt.Sprintf(
		"tail -c +%d %s | head -c %d | LC_ALL=C grep -abE -m 500 -e %s | LC_ALL=C cut -b 1-2048 | head -c 262144",
		offset+1, quote(path), length, quote(searchPattern)))
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

// ReadLog reads a log from its beginning to its present end, a bite at a time. The
// path may be a glob, as in FollowOptions.
func ReadLog(ctx context.Context, r Runner, path string, sink func(Chunk)) error {
	sh := readShell(r)
	var pos Position
	for {
		file, err := readOne(ctx, sh, ask{pattern: path, pos: pos, max: bite})
		if err != nil {
			return err
		}
		if len(file.data) == 0 || pos.Path != "" && (file.path != pos.Path || file.start != pos.Offset) {
			return nil
		}
		chunk := Chunk{Path: file.path, Offset: file.start, Data: file.data}
		sink(chunk)
		pos = Position{Path: chunk.Path, Offset: chunk.Offset + int64(len(chunk.Data))}
		if pos.Offset >= file.size {
			return nil
		}
	}
}

// TailLog returns the last lines of a log, as a terminal would show them.
func TailLog(ctx context.Context, r Runner, path string, lines int) ([]byte, error) {
	sh := readShell(r)
	// The path may be a glob: which file it is, and how long, comes first.
	file, err := readOne(ctx, sh, ask{pattern: path})
	if err != nil {
		return nil, err
	}
	from := max(0, file.size-int64(lines)*1024)
	file, err = readOne(ctx, sh, ask{pattern: path, pos: Position{Path: file.path, Offset: from}, max: bite})
	if err != nil {
		return nil, err
	}
	return asShown(lastLines(file.data, lines)), nil
}

// asShown is text without what steers a terminal; of a line that was drawn over and
// over, as a progress bar is, its last state.
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

// ReadFile returns a small file, such as one in which a server says how to reach it.
func ReadFile(ctx context.Context, r Runner, path string) ([]byte, error) {
	file, err := readOne(ctx, readShell(r), ask{pattern: path, max: bite})
	if err != nil {
		return nil, err
	}
	if file.size > bite {
		return nil, fmt.Errorf("file %q is too large: %d bytes", path, file.size)
	}
	return file.data, nil
}

func readOne(ctx context.Context, sh *shell, a ask) (got, error) {
	list, err := readFiles(ctx, sh, []ask{a})
	if err != nil {
		return got{}, err
	}
	if !list[0].found {
		return got{}, &api.Error{Code: api.CodeNotReady, Message: fmt.Sprintf("cannot read %q on the host: no such file, or no permission", a.pattern)}
	}
	return list[0], nil
}

// ExpandLog fills {id}, {name}, {user} and {node} in a log pattern of the config
// file. What is filled in stands for itself, also where it has a glob's characters;
// a placeholder whose value is not known yet becomes "*".
func ExpandLog(pattern string, job api.Job, user string) string {
	return strings.NewReplacer(
		"{id}", globValue(job.ID),
		"{name}", globValue(job.Name),
		"{user}", globValue(user),
		"{node}", globValue(job.Node),
	).Replace(pattern)
}

// globSpecial are the characters that mean something in a pattern.
const globSpecial = `*?[]\`

func globValue(s string) string {
	if s == "" {
		return "*"
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(globSpecial, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// globWord turns a pattern into a word of sh in which only *, ? and [] are special.
// A backslash takes the meaning from the character after it.
func globWord(pattern string) string {
	word := ""
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		word, pattern = `"$HOME"/`, rest
	}
	var b, literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			b.WriteString(quote(literal.String()))
			literal.Reset()
		}
	}
	escaped := false
	for _, c := range []byte(pattern) {
		switch {
		case escaped:
			literal.WriteByte(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '*' || c == '?' || c == '[' || c == ']':
			flush()
			b.WriteByte(c)
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	return word + b.String()
}

// FindRuntimeFiles returns the files, newest first, in which Jupyter servers of the
// person said since then how to reach them. They are what there is to read where a
// job has no log at all, as under srun and salloc; ParseRuntimeFile reads one.
func FindRuntimeFiles(ctx context.Context, r Runner, since time.Time) ([]string, error) {
	res, err := readShell(r).plain(ctx, `for d in "$JUPYTER_RUNTIME_DIR" "${XDG_DATA_HOME:-$HOME/.local/share}/jupyter/runtime" "$HOME/Library/Jupyter/runtime"; do
	test -z "$d" || ls -t "$d"/jpserver-*.json "$d"/nbserver-*.json 2>/dev/null
done | head -n 20 | while IFS= read -r f; do
	t=$(stat -L -c %Y "$f" 2>/dev/null || stat -L -f %m "$f") && printf '%s %s\n' "$t" "$f"
done`)
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(string(res.Stdout)) {
		written, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n, err := strconv.ParseInt(written, 10, 64); err == nil && !time.Unix(n, 0).Before(since.Truncate(time.Second)) {
			files = append(files, file)
		}
	}
	return files, nil
}
