package configs

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/pelletier/go-toml/v2"
)

// object is a part of a JSON Schema.
type object map[string]any

// probes are a value of each type, as TOML has it, and the type's name in a JSON Schema.
var probes = []struct{ value, kind string }{
	{`"?"`, "string"}, {`true`, "boolean"}, {`-1.5`, "number"}, {`-1`, "integer"}, {`["?"]`, "array"}, {`{ a = "x" }`, "object"},
}

var (
	wrongType = regexp.MustCompile(`^"\w+".* must be .*, not (?:text|true or false|a number|a number with a decimal point|a list|a section)$`)
	wordOf    = regexp.MustCompile(`^"\?" is not one of (.*)$`)
	bounds    = regexp.MustCompile(` must be a number from (\S+) to (\S+), not`)
)

// schemaOf finds out from the readers themselves what a table takes, value by value.
func schemaOf(header string, fields []field) object {
	properties := object{}
	for _, f := range fields {
		if f.example == "" {
			continue // a table
		}
		var forms []object
		for _, p := range probes {
			form, refused := object{"type": p.kind}, false
			for _, e := range load("", []byte(header+"\n"+f.key+" = "+p.value+"\n")).src.errors {
				refused = refused || wrongType.MatchString(e.Message)
				if m := wordOf.FindStringSubmatch(e.Message); m != nil {
					var words []string
					for _, q := range regexp.MustCompile(`"[^"]*"`).FindAllString(m[1], -1) {
						words = append(words, strings.Trim(q, `"`))
					}
					if form["enum"] = words; p.kind == "array" {
						form = object{"type": "array", "items": object{"enum": words}}
					}
				}
				if m := bounds.FindStringSubmatch(e.Message); m != nil {
					form["minimum"], form["maximum"] = json.Number(m[1]), json.Number(m[2])
				}
			}
			if p.kind == "array" && form["items"] == nil {
				form["items"] = object{"type": "string"}
			}
			isNumber := slices.ContainsFunc(forms, func(o object) bool { return o["type"] == "number" })
			if refused || isNumber && p.kind == "integer" {
				continue
			}
			forms = append(forms, form)
		}
		property := object{"anyOf": forms}
		if len(forms) == 1 {
			property = forms[0]
		}
		property["description"] = cmp.Or(commentAbove(f.key+" = "), commentAbove(strings.TrimSuffix(header, "x]")))
		properties[f.key] = property
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// configSchema is the JSON Schema of the whole config.
func configSchema() object {
	all := schemaOf("", new(loader).fields())
	properties := all["properties"].(object)
	for kind, fields := range map[string][]field{"host": new(Host).fields(), "session": new(Session).fields(), "app": new(App).fields()} {
		header := "[" + kind + "."
		properties[kind] = object{"type": "object", "description": commentAbove(header), "additionalProperties": schemaOf(header+"x]", fields)}
	}
	mcp := schemaOf("[mcp]", new(MCP).fields())
	mcp["description"] = commentAbove("[mcp]")
	properties["mcp"] = mcp
	all["$schema"], all["title"] = "http://json-schema.org/draft-07/schema#", "The config of tunctl"
	return all
}

func TestSchema(t *testing.T) {
	want, err := json.MarshalIndent(configSchema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("config.schema.json", append(want, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !*update && Schema != string(want)+"\n" {
		t.Error("config.schema.json is stale: go test ./configs -run Schema -update")
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(want, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		t.Helper()
		var config map[string]any
		if err := toml.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(value)
	}
	if err := check(example); err != nil {
		t.Errorf("it refuses the example: %v", err)
	}
	for header, fields := range map[string][]field{
		"": new(loader).fields(), "[host.x]": new(Host).fields(), "[session.x]": new(Session).fields(), "[app.x]": new(App).fields(), "[mcp]": new(MCP).fields(),
	} {
		for _, f := range fields {
			if text := header + "\n" + f.key + " = " + f.example; f.example != "" && check(text) != nil {
				t.Errorf("it refuses %q: %v", text, check(text))
			}
		}
	}
	for _, wrong := range []string{
		"notfy = true", "notify = [\"redy\"]", "[session.x]\nlocal = 70000", "[session.x]\nlocal = \"8888\"", "[session.x]\nreach = \"nod\"",
		"[session.x]\nforward = 6006", "[session.x]\nwith = \"gpus=1\"", "[host.x]\nresume = \"no\"", "[sesion.x]\nhost = \"a\"", "[mcp]\nnode_hours = -1",
	} {
		if check(wrong) == nil {
			t.Errorf("it accepts %q", wrong)
		}
	}
}
