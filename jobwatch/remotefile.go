package jobwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
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
