// Package wording keeps the texts that people read in plain technical English: it has the
// list of phrases that newcomers stumbled over, with what to write instead. Its tests read
// the strings and comments of the program, the documentation, site files and templates;
// those of cmd/tunctl read the help and the man pages. The program itself does not use it.
package wording

import (
	"fmt"
	"regexp"
	"strings"
)

// Phrase is an expression that no text uses.
type Phrase struct {
	Pattern string // a regular expression for whole words in any letter case; a space is any white space
	Instead string // the plain words, or what to say
}

// Phrases are looked for in what people read, and in comments.
var Phrases = []Phrase{
	{`mend(s|ed|ing)?`, `fix, or "recovers automatically"`},
	{`in (the|their|your|its|our) way`, `what is wrong, troubleshooting, protection; "as … does"`},
	{`the login there is|the connection that is there`, `the existing connection`},
	{`a person is needed`, `interactive login or a decision needed`},
	{`not(e|es|ed|ing) down`, `save`},
	{`of itself`, `automatically`},
	{`by itself goes on|(go|goes|going) on by itself`, `continues in the background, reconnects automatically`},
	{`(lie|lies|lay) there`, `is there, is already on the cluster`},
	{`(it|they|server|host|program|node) (say|says|said) nothing`, `the server sent no banner, printed no output`},
	{`cannot be had`, `is not available, cannot be created`},
	{`(ha[sd]|have|did|do|does) not answer(ed)? in time`, `did not respond within 10 s`},
	{`beyond a host`, `through a host`},
	{`for now`, `temporarily, until …`},
	{`(is|are) one too many`, `unexpected argument %q`},
	{`(would|will) not be right`, `would become invalid`},
	{`amiss`, `wrong`},
	{`whence`, `from where`},
	{`thereby`, `so`},
	{`anew`, `again`},
	{`hither`, `here`},
	{`the way out`, `how to fix it`},
	{`is well`, `OK`},
	{`our guess`, `not verified`},
	{`talk (goes )?to std(err|out)`, `messages go to stderr`},
	{`rare and apart`, `limits how often it logs in`},
	{`tap of Homebrew's`, `Homebrew formula (for your own tap)`},
	{`commented part`, `commented section`},
	{`answer a password`, `log in now: password, one-time code or host key`},
	{`not even the shell`, `never allocate a terminal`},
	{`are read, and how they are`, `show host settings and connection state`},
	{`say(s)? where a job serves`, `find the server address in a job log`},
	{`open what a job serves`, `open a server running in a job`},
	{`to be filled in`, `replace CHANGE-ME for`},
	{`more than nothing`, `greater than zero`},
	{`that tell balances`, `quota command`},
	{`(tell|tells) no time limit`, `reports no time limit`},
	{`has not said where`, `is not known yet`},
	{`time limit of job \S+ stays`, `could not extend job %s`},
	{`will not start by waiting|no waiting will`, `will never start as submitted`},
	{`is no (least|whole)`, `is not a valid minimum, is not an absolute path`},
	{`tell where it is`, `name the setting to change`},
	{`(the )?session is (needs-login|ended)`, `log in to continue, your notebook has ended`},
	{`in vain`, `without success, failed`},
	{`befall(s)?`, `happens to`},
	{`in so many words`, `explicitly`},
	{`wants you`, `needs you to log in`},
	{`%d h %d min`, `%d h %02d min`},
}

// inTexts are looked for in what people read, but not in comments, where they say
// something else or do no harm.
var inTexts = []Phrase{
	{`(?-i:Bring up)`, `Start`}, // a label; within a sentence it is fine
	{`(?-i:Take down)`, `Disconnect`},
	{`(?-i:Cancel job)`, `End the job…`},
	{`by (itself|themselves)`, `automatically`},
	{`(has|have) not told`, `the log does not contain … yet`},
	{`(lie|lies|lay) (in|beside|below|on|under)`, `is in, is next to`},
	{`know(s)? no`, `no … found on HOST`},
	{`is right`, `is valid`},
	{`turns? (\S+ ){1,3}away`, `refuses connections from`},
	{`run(s)? on (and|meanwhile)|; jobs run on`, `keeps running`},
	{`of ours`, `tunctl's`},
	{`by now`, `now`},
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
func Find(text string) []Finding {
	return append(find(text, everywhere), find(text, textsOnly)...)
}

// FindInComment is Find for a comment of the source.
func FindInComment(text string) []Finding { return find(text, everywhere) }

func find(text string, l list) []Finding {
	if !l.anyOf.MatchString(text) { // most texts, and it is far faster than one by one
		return nil
	}
	var found []Finding
	for _, e := range l.each {
		for _, at := range e.FindAllStringIndex(text, -1) {
			quoted := at[0] > 0 && text[at[0]-1] == '`' && strings.HasPrefix(text[at[1]:], "`")
			if !quoted {
				found = append(found, Finding{at[0], text[at[0]:at[1]], e.phrase})
			}
		}
	}
	return found
}

type expression struct {
	*regexp.Regexp
	phrase Phrase
}

// list are phrases as expressions: each of them, and any.
type list struct {
	each  []expression
	anyOf *regexp.Regexp
}

var everywhere, textsOnly = compile(Phrases), compile(inTexts)

func compile(phrases []Phrase) list {
	var l list
	var patterns []string
	for _, p := range phrases {
		boundary := `\b`
		if strings.HasPrefix(p.Pattern, "%") { // no letter, so there is none
			boundary = ""
		}
		pattern := `(?i)` + boundary + `(?:` + strings.ReplaceAll(p.Pattern, " ", `\s+`) + `)\b`
		l.each = append(l.each, expression{regexp.MustCompile(pattern), p})
		patterns = append(patterns, pattern)
	}
	l.anyOf = regexp.MustCompile(strings.Join(patterns, "|"))
	return l
}
