package jobwatch

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostLogs bounds how many files of one job are followed.
const mostLogs = 4

// redirectedTo is a file that a job's script writes to: as it is called, and as the
// script has it.
type redirectedTo struct{ file, word string }

// redirectingLines are those of a script that may send output somewhere.
func redirectingLines(ctx context.Context, sh *shell, script string) (string, error) {
	res, err := sh.plain(ctx, "grep -E '>|tee ' "+quotePath(script)+" 2>/dev/null | head -c 16384")
	return string(res.Stdout), err
}

var (
	redirection = regexp.MustCompile(`(?:[12&]?>>?&?|\btee\s+(?:-\S+\s+)*)\s*("[^"]+"|'[^']+'|[^\s;|&<>()]+)`)
	shellName   = regexp.MustCompile(`\$\{?(\w+)((?:%%?\.\*|%%\.\*)?)\}?`)
	logLike     = regexp.MustCompile(`\.(?:log|out|err|txt)$`)
)

func parseRedirections(lines string, value func(string) string) []redirectedTo {
	var list []redirectedTo
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range redirection.FindAllStringSubmatch(line, -1) {
			word := strings.Trim(m[1], `"'`)
			file, known := expandWord(word, value)
			seen := slices.ContainsFunc(list, func(r redirectedTo) bool { return r.file == file })
			if known && file != "" && !seen && !strings.HasPrefix(file, "/dev/") {
				list = append(list, redirectedTo{file, word})
			}
		}
	}
	return list
}

// expandWord puts in the variables that the scheduler sets; any other makes the
// name unknown.
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

// ownLogs picks from a script's redirections the log that bears the job's own name
// or id, and others that look like one.
func ownLogs(list []redirectedTo, mark string) (own string, others []string) {
	for _, r := range list {
		switch {
		case own == "" && strings.Contains(r.word, mark):
			own = r.file
		case len(others) < mostLogs-2 && (strings.Contains(r.word, mark) || logLike.MatchString(r.file)):
			others = append(others, r.file)
		}
	}
	return own, others
}

// inFolder completes a path with the folder that a job runs in.
func inFolder(folder, file string) string {
	if path.IsAbs(file) || strings.HasPrefix(file, "~/") {
		return file
	}
	return path.Join(folder, file)
}
