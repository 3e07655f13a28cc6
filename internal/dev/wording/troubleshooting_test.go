package wording

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const troubleshooting = "docs/troubleshooting.md"

// TestEveryMessageInTroubleshootingIsOneOfTheProgram reads the first column of the page's
// tables of messages. A page that quotes what the program no longer prints is found by
// nobody who searches for what they see.
func TestEveryMessageInTroubleshootingIsOneOfTheProgram(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, troubleshooting))
	if err != nil {
		t.Fatal(err)
	}
	messages := quotedMessages(string(page))
	if len(messages) < 30 {
		t.Errorf("only %d messages were found: the page is not read right", len(messages))
	}
	literals, _ := source(t)
	for _, message := range messages {
		if !printed(message, literals) {
			t.Errorf("%s quotes %q, which no string of the program has", troubleshooting, message)
		}
	}
}

var inlineCode = regexp.MustCompile("`([^`]+)`")

// quotedMessages are the code in the first cells of tables that begin with "message".
func quotedMessages(page string) []string {
	var messages []string
	inTable := false
	for line := range strings.Lines(page) {
		first, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| ") || !isRow:
			inTable = inTable && strings.HasPrefix(line, "|---")
		case first == "message":
			inTable = true
		case inTable:
			for _, m := range inlineCode.FindAllStringSubmatch(first, -1) {
				messages = append(messages, m[1])
			}
		}
	}
	return messages
}

// printed reports whether one of the strings has a message in it; … in the message is any
// part of the string, such as the place of a value.
func printed(message string, literals []passage) bool {
	return slices.ContainsFunc(literals, func(l passage) bool {
		rest := l.text
		for part := range strings.SplitSeq(message, "…") {
			_, after, found := strings.Cut(rest, strings.TrimSpace(part))
			if !found {
				return false
			}
			rest = after
		}
		return true
	})
}

func TestAQuotedMessageIsFoundByItsFixedParts(t *testing.T) {
	page := "| message | why |\n|---|---|\n| `the host key of … has changed`, `no session …` | x |\n\n| code | |\n|---|---|\n| `usage` | |\n"
	got := quotedMessages(page)
	if want := "the host key of … has changed; no session …"; strings.Join(got, "; ") != want {
		t.Fatalf("quoted are %q", got)
	}
	literals := []passage{{text: "the host key of %s has changed: it shows %q"}}
	if !printed(got[0], literals) {
		t.Error("a message with a value in it is not found")
	}
	if printed(got[1], literals) {
		t.Error("a message that is nowhere is found")
	}
}
