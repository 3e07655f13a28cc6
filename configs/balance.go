package configs

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// BalanceReader is a [read.NAME] table of a site: how to read the output of one of its
// quota commands into numbers.
type BalanceReader struct {
	Name    string `json:"name"`
	Command string `json:"command"` // one of the site's Balance
	// Pattern matches one number at a time. Its groups are name, used, total, left and
	// unit; used, or left and total, are required.
	Pattern *regexp.Regexp `json:"pattern"`
	Unit    string         `json:"unit,omitempty"`   // of numbers that are no amounts of data
	Divide  float64        `json:"divide,omitempty"` // what to divide them by, to get the unit
	Example string         `json:"example"`          // lines of output, which the pattern must match
}

// maxBalances bounds what is read from the output of one command.
const maxBalances = 50

// Read returns the numbers in the output of the reader's command.
func (r *BalanceReader) Read(output string) []api.Balance {
	var all []api.Balance
	for _, m := range r.Pattern.FindAllStringSubmatch(output, maxBalances) {
		groups := map[string]string{}
		for i, name := range slices.Backward(r.Pattern.SubexpNames()) { // the first one of a name counts
			groups[name] = strings.Join(strings.Fields(m[i]), " ")
		}
		if b, ok := r.balance(groups); ok {
			all = append(all, b)
		}
	}
	return all
}

// balance makes a balance of the groups of a match.
func (r *BalanceReader) balance(groups map[string]string) (api.Balance, bool) {
	b := api.Balance{Name: cmp.Or(groups["name"], r.Name), Unit: cmp.Or(groups["unit"], r.Unit)}
	total, limited := parseAmount(groups["total"])
	used, ok := parseAmount(groups["used"])
	if !ok {
		left, known := parseAmount(groups["left"])
		if !known || !limited {
			return b, false
		}
		used = total
		used.number -= left.number * left.scale() / total.scale()
	}
	shown := used // the amount whose prefix is shown
	if limited && total.number > 0 {
		shown = total
	}
	if b.Unit == "" && (shown.prefix != "" || shown.bytes) { // an amount of data, if the site does not say otherwise
		bytes := shown.number * shown.scale()
		for shown.scale()*shown.base() <= bytes && shown.power() < float64(len(prefixes)) { // 50 GB, not 51200 MB
			shown.prefix = prefixes[int(shown.power()):][:1] + strings.TrimLeft(shown.prefix, "k"+prefixes)
		}
		b.Used, b.Total, b.Unit = used.number*used.scale()/shown.scale(), total.number*total.scale()/shown.scale(), shown.prefix+"B"
	} else {
		b.Used, b.Total = used.number*used.decimal(), total.number*total.decimal()
	}
	if r.Divide > 0 {
		b.Used, b.Total = b.Used/r.Divide, b.Total/r.Divide
	}
	b.Used, b.Total = math.Round(b.Used*100)/100, math.Round(b.Total*100)/100
	return b, true
}

// amount is a number as tools print it: 361G, "280 kB", 2.00 TiB, 90k, "1,234"; what is left of
// an account may be less than nothing.
type amount struct {
	number float64
	prefix string // "", "k", "M", "Gi" …
	bytes  bool   // with a "B"
}

var validAmount = regexp.MustCompile(`^(-?[0-9][0-9,]*(?:\.[0-9]*)?) ?([kKMGTPE]?)(i?)(B?)$`)

// parseAmount reads an amount. A word such as "unlimited" is none.
func parseAmount(text string) (amount, bool) {
	m := validAmount.FindStringSubmatch(text)
	if m == nil {
		return amount{}, false
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	return amount{number: number, prefix: m[2] + m[3], bytes: m[4] != ""}, err == nil
}

// scale is how many bytes the prefix stands for.
func (a amount) scale() float64 { return math.Pow(a.base(), a.power()) }

// base is 1000 for GB, and 1024 for GiB and G.
func (a amount) base() float64 {
	if a.bytes && len(a.prefix) == 1 {
		return 1000
	}
	return 1024
}

const prefixes = "KMGTPE"

// decimal is what the prefix stands for in a number of things: 90k files.
func (a amount) decimal() float64 { return math.Pow(1000, a.power()) }

func (a amount) power() float64 {
	if a.prefix == "" {
		return 0
	}
	return float64(strings.Index(prefixes, strings.ToUpper(a.prefix[:1])) + 1)
}

// Balances reads the output of a quota command. There are none if the site does not say how.
func (s *Site) Balances(command, output string) []api.Balance {
	var all []api.Balance
	for _, r := range s.Readers {
		if r.Command == command {
			all = append(all, r.Read(output)...)
		}
	}
	return all
}

func (r *BalanceReader) fields() []field {
	return []field{
		{"command", `"quota -s"`, text(&r.Command)},
		{"pattern", `'^(?P<name>\S+)\s+(?P<used>\S+)\s+(?P<total>\S+)'`, func(in *input) {
			if in.isLine() {
				r.Pattern = in.pattern(in.node, "(?m)"+in.text, "name", "used", "total", "left", "unit")
			}
		}},
		{"unit", `"core-hours"`, text(&r.Unit)},
		{"divide", `3600`, number(&r.Divide, 0, 1e12)},
		{"example", `"/home  12G  50G"`, block(&r.Example)},
	}
}

func newReader(name string) BalanceReader { return BalanceReader{Name: name} }

// check reports what a reader lacks, and a pattern that does not read its example.
func (r *BalanceReader) check(in *input) {
	switch {
	case !in.complete():
	case r.Command == "":
		in.src.addError(in.at, `add: command = "quota -s", one of balance`, "%s has no command", in.title())
	case in.byKey["pattern"] == nil:
		in.src.addError(in.at, `add: pattern = '(?P<used>\S+) of (?P<total>\S+)'`, "%s has no pattern", in.title())
	case r.Pattern == nil: // reported
	case r.Pattern.SubexpIndex("used") < 0 && (r.Pattern.SubexpIndex("left") < 0 || r.Pattern.SubexpIndex("total") < 0):
		in.src.addError(in.byKey["pattern"].at, "write (?P<used>…) around the number", "the pattern of %s has no group named used, nor left and total", in.title())
	case r.Example == "":
		in.src.addError(in.at, `add: example = "…", with a line that the command prints`, "%s has no example", in.title())
	case len(r.Read(r.Example)) == 0:
		in.src.addError(in.byKey["example"].at, "correct the pattern or the example: used, total and left must be numbers, such as 12, 12.5G or 1,234",
			"the pattern of %s reads no number from the example", in.title())
	}
}
