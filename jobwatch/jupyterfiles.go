package jobwatch

import (
	"context"
	"strconv"
	"strings"
	"time"
)

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
