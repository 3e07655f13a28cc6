package sched

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// maxLogs limits how many files of one job are followed.
const maxLogs = 4

// PrintRedirections is the sh text that prints the lines of the file "$f" that may send output
// to a file.
const PrintRedirections = `grep -E '>|tee ' < "$f" 2>/dev/null | head -c 16384`

// ReadRedirections finds a job's script among paths, and reads those of its lines that may
// send output to a file.
func ReadRedirections(ctx context.Context, sh *remote.Shell, paths []string) (script, lines string, err error) {
	if len(paths) == 0 {
		return "", "", nil
	}
	res, err := sh.Plain(ctx, "for f in "+strings.Join(lists.Map(paths, posixsh.QuotePath), " ")+`; do
	test -f "$f" || continue
	printf '%s\n' "$f"
	`+PrintRedirections+`
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

// RedirectedLogs returns, of the files that a script's lines send output to, the one with the job's
// own name or id, which is that of a variable that begins with mark, and others that look like logs.
func RedirectedLogs(lines, folder, mark string, variables map[string]string) (own string, others []string) {
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range redirectionPattern.FindAllStringSubmatch(line, -1) {
			word := strings.Trim(m[1], `"'`)
			file, known := ExpandWord(word, variables)
			if !known || file == "" || strings.HasPrefix(file, "/dev/") {
				continue
			}
			file = AbsolutePath(folder, file)
			marked := strings.Contains(word, mark)
			switch {
			case file == own || slices.Contains(others, file):
			case own == "" && marked:
				own = file
			case len(others) < maxLogs-2 && (marked || logLike.MatchString(file)):
				others = append(others, file)
			}
		}
	}
	return own, others
}

// AddLogs adds files to the job's other logs, unless they are there already.
func AddLogs(job *api.Job, files ...string) {
	for _, file := range files {
		if file != "" && file != job.Log && !slices.Contains(job.OtherLogs, file) {
			job.OtherLogs = append(job.OtherLogs, file)
		}
	}
}

// ExpandWord replaces the variables that the scheduler sets; any other makes the name
// unknown.
func ExpandWord(word string, variables map[string]string) (string, bool) {
	known := true
	text := shellName.ReplaceAllStringFunc(word, func(v string) string {
		m := shellName.FindStringSubmatch(v)
		x := variables[m[1]]
		known = known && x != ""
		if m[2] != "" {
			x, _, _ = strings.Cut(x, ".")
		}
		return x
	})
	return text, known && !strings.ContainsAny(text, "$`")
}

// AbsolutePath is file, relative to the folder that a job runs in.
func AbsolutePath(folder, file string) string {
	if path.IsAbs(file) || strings.HasPrefix(file, "~/") {
		return file
	}
	return path.Join(folder, file)
}
