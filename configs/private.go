package configs

import (
	"cmp"
	"regexp"
	"strings"
)

// privateName is the name of the folder for tunctl's files on a host.
const privateName = "/.tunctl"

// validPrivate is a path that is safe in double quotes: from the root, the home
// folder or a variable on. {user} and {group} are the user's names on the host.
var validPrivate = rule{
	func(text string) bool { return privatePath.MatchString(text) && !strings.Contains(text, "/../") },
	"is not a folder for tunctl's files: it starts with /, ~/ or a variable, may contain {user} and {group}, and ends in " + privateName,
}

var privatePath = regexp.MustCompile(`^(?:~|\$[A-Za-z_][A-Za-z0-9_]*)?(?:/(?:[A-Za-z0-9_.-]|\{user\}|\{group\})+)*` + regexp.QuoteMeta(privateName) + `$`)

// PrivateFolder is the folder for tunctl's files on a host of the site, as shell text for
// double quotes. A variable that is not set is an error there, not the root folder.
func (s *Site) PrivateFolder(h Host) string {
	path := cmp.Or(h.Private, s.Private, "~"+privateName)
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		path = "$HOME" + rest
	} else if rest, ok := strings.CutPrefix(path, "$"); ok {
		name, rest, _ := strings.Cut(rest, "/")
		path = "${" + name + ":?}/" + rest
	}
	return strings.NewReplacer("{user}", "$(id -un)", "{group}", "$(id -gn)").Replace(path)
}
