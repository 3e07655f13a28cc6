package configs

import (
	"regexp"
	"slices"
	"strings"
)

// App is an [app.NAME] table: how a program of one's own announces in its log
// where it serves.
type App struct {
	Name string
	// Patterns match lines of the log. What they find adds up; their groups are
	// named host, port, token, path and scheme.
	Patterns []*regexp.Regexp
}

func patternGroups() []string { return []string{"host", "port", "token", "path", "scheme"} }

func appFields() []field[App] {
	return []field[App]{
		{"patterns", `['http://(?P<host>\S+):(?P<port>\d+)']`, (*input).patterns},
	}
}

// patterns reads the patterns of an app. At least one must tell where it serves;
// others may add the token from another line.
func (in *input) patterns(a *App) {
	tells, sound := false, true
	in.list(func(v value) {
		re, ok := in.pattern(v)
		if !ok {
			sound = false
			return
		}
		tells = tells || re.SubexpIndex("port") >= 0 || re.SubexpIndex("host") >= 0
		a.Patterns = append(a.Patterns, re)
	})
	if v := in.entry.value; sound && !tells && len(a.Patterns) == len(v.items) {
		in.complain(v.at, "write: patterns = "+in.example, "no pattern of %s has a group named port or host", in.table.title())
	}
}

func (in *input) pattern(v value) (*regexp.Regexp, bool) {
	re, err := regexp.Compile(v.text)
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		in.complain(v.at, "patterns are Go's regular expressions: https://pkg.go.dev/regexp/syntax", "bad pattern: %s", reason)
		return nil, false
	}
	ok := true
	for _, group := range re.SubexpNames() {
		if group != "" && !slices.Contains(patternGroups(), group) {
			in.complain(in.src.within(v.at, "<"+group+">"), didYouMean(group, patternGroups()),
				"unknown group %q: a pattern's groups are %s", group, alternatives(patternGroups()))
			ok = false
		}
	}
	return re, ok
}
