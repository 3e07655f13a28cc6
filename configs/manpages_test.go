package configs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// manPages are the pages of docs that are man pages, too.
var manPages = []struct{ name, about, from string }{
	{"tunctl-config", "the config file of tunctl", "configuration.md"},
	{"tunctl-sites", "site files of tunctl: what it knows about a cluster", "adding-a-site.md"},
}

var (
	pageHead = regexp.MustCompile(`(?s)\A# .*?\n\n(?:<!--.*?-->\n\n)?`)
	pageLink = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	tableTop = regexp.MustCompile(`(?m)^\|.*\n\|[-|]+\n`)
	tableRow = regexp.MustCompile(`(?m)^\| (.*?) \| (.*) \|$`)
	roffHead = regexp.MustCompile(`(?s)\A.*?\n\.SH`)
)

func TestManPages(t *testing.T) {
	if *update {
		TestTheReferenceSaysWhatTheSchemaSays(t) // one of the pages is made from it
	}
	for _, page := range manPages {
		markdown, err := os.ReadFile("../docs/" + page.from)
		if err != nil {
			t.Fatal(err)
		}
		markdown = pageLink.ReplaceAll(pageHead.ReplaceAll(markdown, nil), []byte("$1"))
		markdown = tableRow.ReplaceAll(tableTop.ReplaceAll(markdown, nil), []byte("- $1: $2")) // a terminal is too narrow for a table
		text := md2man.Render([]byte(fmt.Sprintf("# %s\n\n# NAME\n\n%[1]s - %s\n\n# DESCRIPTION\n\n%s", page.name, page.about, markdown)))
		head := fmt.Sprintf(".\\\" Made from docs/%s: go test ./configs -run ManPages -update\n.nh\n.TH %s 5 \"\" \"tunctl\" \"File Formats\"\n.SH",
			page.from, strings.ToUpper(strings.ReplaceAll(page.name, "-", `\-`)))
		want := strings.ReplaceAll(roffHead.ReplaceAllLiteralString(string(text), head), page.name+" - ", strings.ReplaceAll(page.name, "-", `\-`)+` \- `)
		file := "../packaging/man/" + page.name + ".5"
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is stale: go test ./configs -run ManPages -update", file)
		}
		groff, err := exec.LookPath("groff")
		if err != nil {
			continue // that of the commands says so
		}
		cmd := exec.CommandContext(t.Context(), groff, "-ww", "-Kutf8", "-Tutf8", "-man")
		cmd.Stdin = strings.NewReader(want)
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || complaints.Len() > 0 || !bytes.Contains(out, []byte("File Formats")) {
			t.Errorf("%s: %v\n%s", page.name, err, complaints.String())
		}
	}
}
