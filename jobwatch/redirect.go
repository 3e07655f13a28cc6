package jobwatch

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/posixsh"
)

// maxLogs limits how many files of one job are followed.
const maxLogs = 4

// redirection is a file that a job's script writes to: its name, and the word in the script.
type redirection struct{ file, word string }

// printRedirections is the sh text that prints the lines of the file "$f" that may send output
// to a file.
const printRedirections = `grep -E '>|tee ' < "$f" 2>/dev/null | head -c 16384`

// readRedirections finds a job's script among paths, and reads those of its lines that may
// send output to a file.
func readRedirections(ctx context.Context, sh *shell, paths []string) (script, lines string, err error) {
	if len(paths) == 0 {
		return "", "", nil
	}
	quoted := make([]string, len(paths))
	for i, p := range paths {
		quoted[i] = posixsh.QuotePath(p)
	}
	res, err := sh.plain(ctx, "for f in "+strings.Join(quoted, " ")+`; do
	test -f "$f" || continue
	printf '%s\n' "$f"
	`+printRedirections+`
	break
done`)
	script, lines, _ = strings.Cut(string(res.Stdout), "\n")
	return script, lines, err
}

var (
	redirectionPattern = regexp.MustCompile(`(?:[12&]?>>?&?|\btee\s+(?:-\S+\s+)*)\s*("[^"]+"|'[^']+'|[^\s;|&<>()]+)`)
	shellName          = regexp.MustCompile(`\$\{?(\w+)((?:%%?\.\*|%%\.\*)?)\}?`)
	logLike            = regexp.MustCompile(`\.(?:log|out|err|txt)$`)
)

func parseRedirections(lines string, value func(string) string) []redirection {
	var list []redirection
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range redirectionPattern.FindAllStringSubmatch(line, -1) {
			word := strings.Trim(m[1], `"'`)
			file, known := expandWord(word, value)
			seen := slices.ContainsFunc(list, func(r redirection) bool { return r.file == file })
			if known && file != "" && !seen && !strings.HasPrefix(file, "/dev/") {
				list = append(list, redirection{file, word})
			}
		}
	}
	return list
}

// expandWord replaces the variables that the scheduler sets; any other makes the name
// unknown.
func expandWord(word string, value func(string) string) (string, bool) {
	known := true
	text := shellName.ReplaceAllStringFunc(word, func(v string) string {
		m := shellName.FindStringSubmatch(v)
		x := value(m[1])
		known = known && x != ""
		if m[2] != "" {
			x, _, _ = strings.Cut(x, ".")
		}
		return x
	})
	return text, known && !strings.ContainsAny(text, "$`")
}

// ownLogs returns, of a script's redirections, the log with the job's own name or id, and
// others that look like logs.
func ownLogs(list []redirection, mark string) (own string, others []string) {
	for _, r := range list {
		switch {
		case own == "" && strings.Contains(r.word, mark):
			own = r.file
		case len(others) < maxLogs-2 && (strings.Contains(r.word, mark) || logLike.MatchString(r.file)):
			others = append(others, r.file)
		}
	}
	return own, others
}

// absolutePath is file, relative to the folder that a job runs in.
func absolutePath(folder, file string) string {
	if path.IsAbs(file) || strings.HasPrefix(file, "~/") {
		return file
	}
	return path.Join(folder, file)
}
