package configs

import (
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/suggest"
)

// fromScheduler turns sbatch's own placeholders into ours.
var fromScheduler = strings.NewReplacer("%j", "{id}", "%x", "{name}", "%u", "{user}", "%N", "{node}")

func logPlaceholders() []string { return []string{"id", "name", "user", "node"} }

// log reads the path of a job's log, which may hold placeholders.
func (in *input) log(s *Session) {
	text, ok := in.text()
	if !ok {
		return
	}
	at := in.entry.value.at
	if ours := fromScheduler.Replace(text); ours != text {
		in.complain(at, fmt.Sprintf("write: log = %q", ours), "scheduler placeholders are not supported here")
		return
	}
	if path, here := strings.CutPrefix(text, localPrefix); here && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
		in.complain(at, `write "local:/mnt/home/{name}.{id}.log"`, "%q is not an absolute path", path)
		return
	}
	s.Log = localOrRemote(text)
	for {
		_, after, found := strings.Cut(text, "{")
		if !found {
			return
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			in.complain(in.src.within(at, "{"+after), "", "the placeholder has no closing }")
			return
		}
		in.placeholder(at, name)
		text = rest
	}
}

func (in *input) placeholder(at span, name string) {
	if slices.Contains(logPlaceholders(), name) {
		return
	}
	hint := "available: {id}, {name}, {user}, {node}"
	if near := suggest.Nearest(name, logPlaceholders()); len(near) > 0 {
		hint = fmt.Sprintf("did you mean {%s}?", near[0])
	}
	in.complain(in.src.within(at, "{"+name+"}"), hint, "unknown placeholder {%s}", name)
}
