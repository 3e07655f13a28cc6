package configs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md and docs/sites")

const referencePath = "../docs/configuration.md"

// referenceHead is what the schema cannot tell.
const referenceHead = `# The config file, key by key

<!-- Made from the schema and from configs/example.toml; after a change there: go test ./configs -run Reference -update -->

` + "`tunctl config path`" + ` prints where the file is, ` + "`tunctl config edit`" + ` opens it (a new one starts from an
[example](../configs/example.toml)), and ` + "`tunctl config check`" + ` reports what is wrong: the line, the column, what was
expected, and what you may have meant. A key that is not on this page is an error.

A change takes effect within 5 s, for the next command at once. What is up stays up. While the
file has an error, ` + "`tunctl up`" + ` reports it and starts nothing new. ` + "`TUNCTL_CONFIG`" + ` or ` + "`--config FILE`" + ` selects another
file; an agent that is running with a different one refuses that.

Editors complete and explain the keys by a JSON Schema, for example VS Code with Even Better TOML, and others with taplo:
` + "`tunctl config schema >config.schema.json`" + ` beside the config, and there the first line ` + "`#:schema ./config.schema.json`" + `.
[adding-a-site.md](adding-a-site.md) describes the files of sites.
`

func TestTheReferenceSaysWhatTheSchemaSays(t *testing.T) {
	var want strings.Builder
	want.WriteString(referenceHead)
	for _, table := range []struct {
		title, header string
		keys          []string
		examples      map[string]string
	}{
		{"At the top of the file", "", keysOf(new(loader).fields()), examplesOf(new(loader).fields())},
		{"[host.NAME]", "[host.", keysOf(new(Host).fields()), examplesOf(new(Host).fields())},
		{"[session.NAME]", "[session.", keysOf(new(Session).fields()), examplesOf(new(Session).fields())},
		{"[app.NAME]", "[app.", keysOf(new(App).fields()), examplesOf(new(App).fields())},
		{"[mcp]", "[mcp]", keysOf(new(MCP).fields()), examplesOf(new(MCP).fields())},
	} {
		title := table.title
		if table.header != "" {
			title = "`" + title + "`"
		}
		fmt.Fprintf(&want, "\n## %s\n", title)
		if table.header != "" {
			fmt.Fprintf(&want, "\n%s\n", commentAbove(table.header))
		}
		for _, key := range table.keys {
			if table.examples[key] == "" {
				continue // a kind of table, which has a section of its own
			}
			fmt.Fprintf(&want, "\n### `%s`\n\n```toml\n%s = %s\n```\n", key, key, table.examples[key])
			text := commentAbove(key + " = ")
			switch {
			case text != "":
				fmt.Fprintf(&want, "\n%s\n", text)
			case len(table.keys) > 1: // else the table's own comment is about its key
				t.Errorf("the example does not explain %q", key)
			}
		}
	}
	if *update {
		if err := os.WriteFile(referencePath, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("docs/configuration.md is stale: go test ./configs -run Reference -update")
	}
}

func examplesOf(fields []field) map[string]string {
	examples := map[string]string{}
	for _, f := range fields {
		examples[f.key] = f.example
	}
	return examples
}

// commentAbove is the comment above the first line of the example that begins with
// start, commented out or not, as Markdown.
func commentAbove(start string) string {
	var comment []string
	for line := range strings.SplitSeq(example, "\n") {
		text, isComment := strings.CutPrefix(line, "#")
		text = strings.TrimPrefix(text, " ")
		switch {
		case strings.HasPrefix(line, start), isComment && strings.HasPrefix(text, start):
			return markdown(comment)
		case isComment:
			comment = append(comment, text)
		default:
			comment = nil
		}
	}
	return ""
}

// column is a line of a small table in a comment: a word and what it means.
var column = regexp.MustCompile(`^ {2}(\S.*?) {2,}(\S.*)$`)

// quoted is a word in quotes, or one of the file's own keys with its value.
var quoted = regexp.MustCompile(`\w+ = ("[^"]*"|true|false)|"[^"]*"`)

func markdown(comment []string) string {
	var out []string
	inList := false
	for _, line := range comment {
		if m := column.FindStringSubmatch(line); m != nil {
			if !inList {
				out = append(out, "")
			}
			out, inList = append(out, fmt.Sprintf("- `%s`: %s", m[1], m[2])), true
			continue
		}
		if inList {
			out, inList = append(out, ""), false
		}
		if !strings.Contains(line, "`") {
			line = quoted.ReplaceAllString(line, "`$0`")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
