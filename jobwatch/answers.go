package jobwatch

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// commandError is the failure of a command that ran, in its own words.
func commandError(command string, exit int, words string) error {
	if exit == 127 {
		return &api.Error{
			Code:    api.CodeFailed,
			Message: fmt.Sprintf("%q is not on the host's PATH", command),
			Hint:    `set scheduler for this host in the config, or add the command to the PATH of your login shell there`,
		}
	}
	return &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("%s failed with status %d: %s", command, exit, words)}
}

// firstComplaint is the line of a command's output that says most: its last line
// that is an error, without the command's name.
func firstComplaint(res Result) string {
	text := strings.TrimSpace(string(res.Stderr))
	if text == "" {
		text = strings.TrimSpace(string(res.Stdout))
	}
	if text == "" {
		return fmt.Sprintf("status %d", res.Exit)
	}
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return api.Redact(api.NewRemoteText(last).FirstLine(300).String())
}

// hasTag reports whether job was submitted from the folder of tag.
func hasTag(job api.Job, tag string) bool {
	return strings.Contains(job.Script, "/"+tagRoot+"/"+tag+"/")
}

var leadingNumber = regexp.MustCompile(`^\d+`)

// compareIDs orders ids by age as well as ids can: by their number, then their text.
func compareIDs(a, b string) int {
	x, _ := strconv.ParseInt(leadingNumber.FindString(a), 10, 64)
	y, _ := strconv.ParseInt(leadingNumber.FindString(b), 10, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
