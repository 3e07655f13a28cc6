package jobtest

import (
	"fmt"
	"regexp"

	"tunctl/jobwatch/remote"
)

// markOf finds the mark of a script.
var markOf = regexp.MustCompile(`(tunctl-\w+)\.begin`)

// Answer is the result of a script as a host in memory gives it: what the script printed, in its frame.
func Answer(script, out, errout string, exit int) remote.Result {
	mark := markOf.FindStringSubmatch(script)[1]
	return remote.Result{
		Stdout: fmt.Appendf(nil, "Welcome\n%s.begin\n%s\n%s.end %d\n", mark, out, mark, exit),
		Stderr: fmt.Appendf(nil, "%s.begin\n%s\n%s.end\n", mark, errout, mark),
	}
}

// fileRead finds the files that a script reads, and the mark of their parts.
var fileRead = regexp.MustCompile(`set -- '([^']+)'\ntunctl_read (tunctl-\w+)`)

// Files is the Answer to a script that reads files, of which read has the text.
func Files(script string, read func(path string) (text string, exists bool)) remote.Result {
	out, mark := "", ""
	for i, m := range fileRead.FindAllStringSubmatch(script, -1) {
		mark = m[2]
		if text, exists := read(m[1]); exists {
			out += fmt.Sprintf("\n%s.%d 0 %d %s\n%s", mark, i, len(text), m[1], text)
		}
	}
	return Answer(script, out+"\n"+mark+" end\n", "", 0)
}
