package doctor

import (
	"archive/zip"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Item is a file of a bundle.
type Item struct {
	Name string
	Text string
}

// maxItem is the largest size of a file in a bundle; of a larger one the end is kept.
const maxItem = 512 << 10

// WriteBundle writes items to a zip file, each scrubbed, and returns the scrubbed ones.
func WriteBundle(w io.Writer, items []Item, s Scrubber, now time.Time) ([]Item, error) {
	z := zip.NewWriter(w)
	packed := make([]Item, 0, len(items))
	for _, item := range items {
		if len(item.Text) > maxItem {
			_, end, _ := strings.Cut(item.Text[len(item.Text)-maxItem:], "\n") // half a line may hide half a secret
			item.Text = "…\n" + end
		}
		item.Text = s.Scrub(item.Text)
		f, err := z.CreateHeader(&zip.FileHeader{Name: item.Name, Method: zip.Deflate, Modified: now})
		if err == nil {
			_, err = io.WriteString(f, item.Text)
		}
		if err != nil {
			return packed, fmt.Errorf("pack %s: %w", item.Name, err)
		}
		packed = append(packed, item)
	}
	return packed, z.Close()
}

// Scrubber removes secrets and names from text that leaves this machine.
type Scrubber []replacement

type replacement struct {
	old *regexp.Regexp
	new string
}

// shortest is the length from which a name is also removed inside of words: "al" is part
// of too many.
const shortest = 4

// NewScrubber returns a scrubber for names, which map to their replacements.
func NewScrubber(names map[string]string) Scrubber {
	olds := slices.DeleteFunc(slices.Collect(maps.Keys(names)), func(old string) bool { return len(old) < 2 })
	// The longest first: the path of a home folder contains the user's name.
	slices.SortFunc(olds, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s := slices.Clone(scrubbing)
	for _, form := range accountForms {
		s = append(s, replacement{form, "${1}•••"})
	}
	for _, old := range olds {
		pattern := regexp.QuoteMeta(old)
		if len(old) < shortest {
			pattern = `\b` + pattern + `\b`
		}
		s = append(s, replacement{regexp.MustCompile(`(?i)` + pattern), names[old]})
	}
	return s
}

// accountForms are how an account or project is written, in a config, a command, a job
// script, an answer or the output of a scheduler; in JSON, quotes have a backslash. The
// first group is what comes before it, the second is the account.
var accountForms = []*regexp.Regexp{
	regexp.MustCompile(`(--(?:account|project)(?:=|[ \t]+|\\?["'],?\s*)\\?["']?)` + account),
	regexp.MustCompile(`(?m)((?:^|\\n|[^\w-])-[AP](?:[ \t]+|\\?["'],?\s*)?\\?["']?)` + account),
	regexp.MustCompile(`(?i)(\b(?:account|project|group_list)(?:_name)?\\?["']?[ \t]*[:=][ \t]*\\?["']?)` + account),
	regexp.MustCompile(`(\((?:user|group|project) )` + account), // of a quota
}

const account = `([^\s"'(),\[\]{}\\]+)`

// Accounts returns the accounts in the words of a submit command.
func Accounts(args []string) []string {
	var found []string
	for _, form := range accountForms {
		for _, m := range form.FindAllStringSubmatch(strings.Join(args, " "), -1) {
			found = append(found, m[2])
		}
	}
	return found
}

var scrubbing = Scrubber{
	// The lines of a job's log in a cause, which is quoted.
	{regexp.MustCompile(regexp.QuoteMeta(strings.TrimSpace(api.LogEndsWith)) + `(?:\\.|[^"\\\n])+`), strings.TrimSpace(api.LogEndsWith) + " •••"},
	// The names of users in addresses.
	{regexp.MustCompile(`\b[\w.+-]+@([\w-]+(?:\.[\w-]+)*)`), "user@$1"},
	// Commands and headers that the user wrote secrets into.
	{regexp.MustCompile(`(before_login\s*=\s*).+`), `$1"•••"`},
	{regexp.MustCompile(`(?i)(authorization:|bearer|password|passwd|passphrase|api[_-]?key)(["']?\s*[:= ]\s*["']?)[^\s"',]+`), "$1$2•••"},
	// Long random words.
	{regexp.MustCompile(`\b[0-9a-fA-F]{24,}\b`), "•••"},
	{regexp.MustCompile(`-----BEGIN [A-Z ]+-----(?s:.*?)(?:-----END [A-Z ]+-----|$)`), "•••"},
	{regexp.MustCompile(`\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+) [A-Za-z0-9+/=]{30,}`), "•••"},
}

// Scrub returns text without secrets and names.
func (s Scrubber) Scrub(text string) string {
	text = api.Redact(text)
	for _, r := range s {
		text = r.old.ReplaceAllString(text, r.new)
	}
	return text
}
