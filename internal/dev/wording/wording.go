// Package wording keeps the texts that people read in plain technical English: it has the
// list of phrases that newcomers stumbled over, with what to write instead. Its tests read
// the strings and comments of the program, the documentation, site files and templates;
// those of cmd/tunctl read the help and the man pages. The program itself does not use it.
package wording

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Phrase is an expression that no text uses.
type Phrase struct {
	// Words are what to look for: between slashes one of several, * any word. Letter case
	// counts where a word here has a capital.
	Words   string
	Instead string // the plain words, or what to say
}

// phrases are looked for in what people read, and in comments.
var phrases = []Phrase{
	{"mend/mends/mended/mending", "fix, or \"recovers automatically\""},
	{"in the/their/your/its/our way", "what is wrong, troubleshooting, protection; \"as … does\""},
	{"the login there is", "the existing connection"},
	{"the connection that is there", "the existing connection"},
	{"a person is needed", "interactive login or a decision needed"},
	{"note/notes/noted/noting down", "save"},
	{"of itself", "automatically"},
	{"by itself goes on", "continues in the background"},
	{"go/goes/going on by itself", "continues in the background, reconnects automatically"},
	{"lie/lies/lay there", "is there, is already on the cluster"},
	{"it/they/server/host/program/node say/says/said nothing", "the server sent no banner, printed no output"},
	{"cannot be had", "is not available, cannot be created"},
	{"not answer/answered in time", "did not respond within 10 s"},
	{"beyond a host", "through a host"},
	{"for now", "temporarily, until …"},
	{"is/are one too many", "unexpected argument %q"},
	{"would/will not be right", "would become invalid"},
	{"amiss", "wrong"},
	{"whence", "from where"},
	{"thereby", "so"},
	{"anew", "again"},
	{"hither", "here"},
	{"the way out", "how to fix it"},
	{"is well", "OK"},
	{"our guess", "not verified"},
	{"talk to/goes stderr/to", "messages go to stderr"},
	{"rare and apart", "limits how often it logs in"},
	{"tap of Homebrew's", "Homebrew formula (for your own tap)"},
	{"commented part", "commented section"},
	{"answer a password", "log in now: password, one-time code or host key"},
	{"not even the shell", "never allocate a terminal"},
	{"read and how they are", "show host settings and connection state"},
	{"say/says where a job serves", "find the server address in a job log"},
	{"open what a job serves", "open a server running in a job"},
	{"to be filled in", "replace CHANGE-ME for"},
	{"more than nothing", "greater than zero"},
	{"that tell balances", "quota command"},
	{"tell/tells no time limit", "reports no time limit"},
	{"has not said where", "is not known yet"},
	{"time limit of job * stays", "could not extend job %s"},
	{"not start by waiting", "will never start as submitted"},
	{"no waiting will", "will never start as submitted"},
	{"is no least/whole", "is not a valid minimum, is not an absolute path"},
	{"tell where it is", "name the setting to change"},
	{"session is needs-login/ended", "log in to continue, your notebook has ended"},
	{"in vain", "without success, failed"},
	{"befall/befalls", "happens to"},
	{"in so many words", "explicitly"},
	{"wants you", "needs you to log in"},
	{"%d h %d min", "%d h %02d min"},
}

// inTexts are looked for in what people read, but not in comments, where they say
// something else or do no harm.
var inTexts = []Phrase{
	{"Bring up", "Start"}, // a label; within a sentence it is fine
	{"Take down", "Disconnect"},
	{"Cancel job", "End the job…"},
	{"by itself/themselves", "automatically"},
	{"has/have not told", "the log does not contain … yet"},
	{"lie/lies/lay in/beside/below/on/under", "is in, is next to"},
	{"know/knows no", "no … found on HOST"},
	{"is right", "is valid"},
	{"turns this/your address away", "refuses connections from this address"},
	{"run/runs on and/meanwhile", "keeps running"},
	{"of ours", "tunctl's"},
	{"by now", "now"},
}

// Finding is a place where a phrase is used.
type Finding struct {
	Offset int    // where in the text it begins
	Words  string // as they stand there
	Phrase Phrase
}

// String implements fmt.Stringer.
func (f Finding) String() string {
	return fmt.Sprintf("%q: write %s", strings.Join(strings.Fields(f.Words), " "), f.Phrase.Instead)
}

// Find returns where a text that people read uses one of the phrases. Words that stand
// alone in backquotes are the name of something, such as a key of the JSON, and are left
// alone.
func Find(text string) []Finding { return find(text, everywhere, textsOnly) }

// findInComment is Find for a comment of the source.
func findInComment(text string) []Finding { return find(text, everywhere) }

func find(text string, lists ...map[string][]phrase) []Finding {
	var found []Finding
	words := split(text)
	for i, w := range words {
		for _, list := range lists {
			for _, p := range list[strings.ToLower(w.text)] {
				if n := len(p.words); p.matches(words[i:]) {
					from, to := w.at, words[i+n-1].at+len(words[i+n-1].text)
					quoted := from > 0 && text[from-1] == '`' && strings.HasPrefix(text[to:], "`")
					if !quoted {
						found = append(found, Finding{from, text[from:to], p.Phrase})
					}
				}
			}
		}
	}
	return found
}

// word is one of a text.
type word struct {
	text string
	at   int // where it begins
}

// split takes the words out of a text: letters and digits, with what stands within words
// and formats.
func split(text string) []word {
	var words []word
	begin := -1
	for at, r := range text {
		within := unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("%'-_", r)
		switch {
		case within && begin < 0:
			begin = at
		case !within && begin >= 0:
			words = append(words, word{text[begin:at], begin})
			begin = -1
		}
	}
	if begin >= 0 {
		words = append(words, word{text[begin:], begin})
	}
	return words
}

// phrase is one that is ready to be looked for.
type phrase struct {
	Phrase
	words [][]string // for each place, those that may stand there; none is any word
}

// matches reports whether words begin with the phrase.
func (p phrase) matches(words []word) bool {
	if len(words) < len(p.words) {
		return false
	}
	for i, choice := range p.words {
		same := func(want string) bool {
			return want == words[i].text || want == strings.ToLower(want) && want == strings.ToLower(words[i].text)
		}
		if choice != nil && !slices.ContainsFunc(choice, same) {
			return false
		}
	}
	return true
}

var everywhere, textsOnly = byFirstWord(phrases), byFirstWord(inTexts)

// byFirstWord are phrases by the words that they can begin with, in lower case.
func byFirstWord(phrases []Phrase) map[string][]phrase {
	m := map[string][]phrase{}
	for _, one := range phrases {
		p := phrase{Phrase: one}
		for w := range strings.FieldsSeq(one.Words) {
			choice := strings.Split(w, "/")
			if w == "*" {
				choice = nil
			}
			p.words = append(p.words, choice)
		}
		for _, first := range p.words[0] {
			first = strings.ToLower(first)
			m[first] = append(m[first], p)
		}
	}
	return m
}
