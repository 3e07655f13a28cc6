package arrows

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// stateTables are the tables of viewers that have a row for each state, with the text that ends each.
var stateTables = []struct{ of, file, begin, end string }{
	{"Session", "internal/agent/facts/reason.go", "switch v.State {", "\n\t}\n"},
	{"Session", "internal/show/sessions.go", "var sessionColours", "\n}\n"},
	{"Session", "internal/dashboard/assets/words.js", "const sessionKinds", "};\n"},
	{"Host", "internal/show/hosts.go", "var hostColours", "\n}\n"},
	{"Host", "internal/dashboard/assets/words.js", "const hostKinds", "};\n"},
	{"Job", "internal/show/jobs.go", "var jobColours", "\n}\n"},
	{"Job", "internal/dashboard/assets/words.js", "const jobKinds", "};\n"},
}

// stateConstant is the declaration of a state: its name, and the word that travels.
var stateConstant = regexp.MustCompile(`(?m)^\t(\w+) +(Session|Host|Job)State = "([^"]+)"`)

// TestStates: every viewer says what it does with every state.
func TestStates(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	states := stateConstant.FindAllStringSubmatch(read("internal/api/session.go")+read("internal/api/host.go")+read("internal/api/job.go"), -1)
	if len(states) < 30 {
		t.Fatalf("only %d states are found", len(states))
	}
	for _, table := range stateTables {
		_, rest, _ := strings.Cut(read(table.file), table.begin)
		rows, _, found := strings.Cut(rest, table.end)
		if !found {
			t.Errorf("%s has no %q", table.file, table.begin)
		}
		for _, s := range states {
			if row := regexp.MustCompile(`api\.` + s[1] + `\b|\b` + s[3] + `"?: "`); s[2] == table.of && !row.MatchString(rows) {
				t.Errorf("%s, %s: nothing about %s", table.file, table.begin, s[1])
			}
		}
	}
}
