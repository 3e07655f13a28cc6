package messages

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/errors.md")

const (
	root            = "../.."
	listing         = root + "/docs/errors.md"
	troubleshooting = root + "/docs/troubleshooting.md"
)

// section is a part of the troubleshooting page, with the messages it is about.
type section struct {
	title, anchor string
	text          string
}

// sections reads the page: what is said of each message.
func sections(t *testing.T) (all []*section, byMessage map[string]*section) {
	t.Helper()
	page, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	byMessage = map[string]*section{}
	var now *section
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "##") {
			title := strings.TrimSpace(strings.TrimLeft(line, "#"))
			now = &section{title: title, anchor: anchor(title)}
			all = append(all, now)
			continue
		}
		if key, ok := strings.CutPrefix(line, "- `"); ok && now != nil {
			if byMessage[strings.TrimSuffix(key, "`")] != nil {
				t.Errorf("%s is in the page twice", line)
			}
			byMessage[strings.TrimSuffix(key, "`")] = now
			continue
		}
		if now != nil {
			now.text += line + "\n"
		}
	}
	return all, byMessage
}

var notInAnchor = regexp.MustCompile(`[^\pL\pN _-]`)

// anchor is how a heading is linked to.
func anchor(title string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// place is where the page tells of a message: each has its own place, but for those
// of the config file, which bring their own explanation, and wrong usage.
func place(m message, byMessage map[string]*section) (title, anchor string) {
	if s := byMessage[m.text]; s != nil {
		return s.title, s.anchor
	}
	switch {
	case m.code == "CodeUsage":
		return "Wrong usage", "wrong-usage"
	case m.where == "configs":
		return "The file has an error", "the-file-has-an-error"
	}
	return "", ""
}

func TestEveryMessageHasItsCauseAndItsWayOut(t *testing.T) {
	all, byMessage := sections(t)
	for _, s := range all {
		if strings.TrimSpace(s.text) == "" {
			continue // a heading above others
		}
		if !strings.Contains(s.text, "**Why.**") || !strings.Contains(s.text, "**What to do.**") {
			t.Errorf("section %q does not say why and what to do", s.title)
		}
	}
	used := map[string]bool{}
	for _, m := range collect(t, root) {
		used[m.text] = true
		if title, _ := place(m, byMessage); title == "" && m.whole {
			t.Errorf("docs/troubleshooting.md has no place for %q of %s: add a line - `%s` to the section that explains it", m.text, m.where, m.text)
		}
	}
	for text := range byMessage {
		if !used[text] {
			t.Errorf("docs/troubleshooting.md explains %q, which the program never says", text)
		}
	}
}

func TestTheListingIsMadeFromTheCode(t *testing.T) {
	_, byMessage := sections(t)
	var b bytes.Buffer
	b.WriteString("# Every error message\n\nMade from the code by `go test ./internal/messages -update`. `…` stands for what differs from case to case.\n" +
		"[troubleshooting.md](troubleshooting.md) has the causes; each message links to its own.\n\n" +
		"| message | hint | cause and way out |\n|---|---|---|\n")
	inside := []string{}
	seen := map[string]bool{}
	for _, m := range collect(t, root) {
		title, anchor := place(m, byMessage)
		row := fmt.Sprintf("| %s | %s | [%s](troubleshooting.md#%s) |\n", cell(m.text), cell(m.hint), title, anchor)
		switch {
		case m.whole && title != "" && !seen[row]:
			b.WriteString(row)
		case !m.whole && !seen[row]:
			inside = append(inside, m.text)
		}
		seen[row] = true
	}
	b.WriteString("\n## Words inside other messages\n\nThese stand where another message has its last `…`.\n\n")
	for _, text := range inside {
		b.WriteString("- " + text + "\n")
	}
	if *update {
		if err := os.WriteFile(listing, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(listing)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Error("docs/errors.md is not what the code says: go test ./internal/messages -update")
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
