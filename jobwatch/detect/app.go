package detect

import (
	"regexp"
	"slices"
	"sync"
)

// App is a person's own app: patterns with the named groups host, port, token,
// path and scheme, tried on every line of the log.
type App struct {
	Name     string
	Patterns []*regexp.Regexp
}

// The apps we know. Their names are what `app =` of a session takes.
const (
	appJupyter     = "jupyter"
	appRStudio     = "rstudio"
	appCodeServer  = "code-server"
	appTunnel      = "vscode-tunnel"
	appMarimo      = "marimo"
	appPluto       = "pluto"
	appNoVNC       = "novnc"
	appVNC         = "vnc"
	appStreamlit   = "streamlit"
	appGradio      = "gradio"
	appBokeh       = "bokeh"
	appTensorBoard = "tensorboard"
	appMLflow      = "mlflow"
	appDask        = "dask"
	appRay         = "ray"
	appSpark       = "spark"
	appWeb         = "http" // some web server: offered, never opened by itself
)

// appsByRank is whom to believe to be what a person came for, when one log
// announces several: places to work in, then pages made to be looked at, then
// dashboards that come along with a computation, then any web server.
var appsByRank = []string{
	appJupyter, appRStudio, appCodeServer, appTunnel, appMarimo, appPluto, appNoVNC, appVNC,
	appStreamlit, appGradio, appBokeh,
	appTensorBoard, appMLflow, appDask, appRay, appSpark,
	appWeb,
}

// Apps are the names of the apps we know, those first that people mean most often.
func Apps() []string { return slices.Clone(appsByRank) }

// appRank is an app's place in that order; a person's own app comes before all.
func appRank(app string) int { return slices.Index(appsByRank, app) }

// appWords are the words by which a line tells which app it speaks of.
var appWords = []struct{ word, app string }{
	{"jupyter", appJupyter},
	{"ipython notebook", appJupyter},
	{"rstudio", appRStudio},
	{"rserver", appRStudio},
	{"code-server", appCodeServer},
	{"code server", appCodeServer},
	{"tensorboard", appTensorBoard},
	{"streamlit", appStreamlit},
	{"marimo", appMarimo},
	{"pluto", appPluto},
	{"vnc", appVNC},
	{"mlflow", appMLflow},
	{"gradio", appGradio},
}

// act is what a rule's match means.
type act int

const (
	announces act = iota // the server says where it is
	marks                // the words below or above are about this app
	moves                // the port asked for is taken, another is tried
	ends                 // the server says that it stops
	fails                // the server could not start
	endsJob              // the whole job is over
	passes               // looks like an announcement and is none
)

// rule is one form of line. A line is tried only if it holds the needle, so each
// rule costs nothing on the lines it has nothing to say about.
type rule struct {
	app    string
	act    act
	needle string // in lower case
	named  bool   // tried only if the line names an app too: the needle is a common word
	re     *regexp.Regexp
	path   string // the page, where the line does not tell
	said   string // what the line is, or why it is passed over, for a person
	near   string // matches only within a few lines of this mark
	read   func(*reading, logLine)
}

// ruleBook is the built-in rules and the filter of their needles.
type ruleBook struct {
	rules  []rule
	filter *lineFilter
	tries  []bitset // per needle, the rules to try
	named  bitset   // the rules that need the name of an app
	strong bitset   // the needles of the others: without one of them, no rule applies
	word   []int    // per word of appWords, its needle's number
}

// find returns the rules to try on a line, in order, and the app it names, or "".
func (b *ruleBook) find(line []byte) (rules bitset, app string) {
	hits := b.filter.scan(line)
	if !hits.meets(b.strong) {
		return rules, ""
	}
	for i := range hits.all {
		rules.join(b.tries[i])
	}
	for i, w := range appWords {
		if hits.has(b.word[i]) {
			return rules, w.app
		}
	}
	for i := range b.named.all {
		rules.del(i)
	}
	return rules, ""
}

// builtinRules returns all we know, built once: the filter takes half a megabyte.
var builtinRules = sync.OnceValue(func() *ruleBook {
	return newRuleBook(slices.Concat(passRules, endRules, jupyterRules, hintRules, workRules, pageRules, dashboardRules,
		vncRules, webRules, mentionRules()))
})

func newRuleBook(rules []rule) *ruleBook {
	b := &ruleBook{rules: rules}
	var words []string
	for n, r := range rules {
		i := slices.Index(words, r.needle)
		if i < 0 {
			i = len(words)
			words = append(words, r.needle)
			b.tries = append(b.tries, bitset{})
		}
		b.tries[i].add(n)
		if r.named {
			b.named.add(n)
		} else {
			b.strong.add(i)
		}
	}
	for _, w := range appWords {
		b.word = append(b.word, slices.Index(words, w.word))
	}
	b.filter = newLineFilter(words)
	return b
}

// mentionRules notice which app the log speaks of, so that a hint such as
// `ssh -L 8787:node:8787` can be told to be about RStudio.
func mentionRules() []rule {
	rules := make([]rule, 0, len(appWords))
	for _, w := range appWords {
		rules = append(rules, rule{needle: w.word, read: func(r *reading, l logLine) { r.mention(w.app, l) }})
	}
	return rules
}

// hostPattern matches a host name or an IPv4 address; wherePattern a host and a
// port; urlPattern the start of a URL, whose rest is read by findURLs.
const (
	hostPattern  = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
	wherePattern = `(?P<host>` + hostPattern + `):(?P<port>\d{2,5})\b`
	urlPattern   = `(?P<url>https?://\S+)`
)
