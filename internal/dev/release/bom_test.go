package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheBillOfMaterialsIsWhatTheLinkerWroteDown(t *testing.T) {
	r := made(t, "v1.2.3")
	text, err := os.ReadFile(mustGlob(t, r, "*.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(filepath.Join(unpack(t, r), "tunctl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Components) != len(info.Deps)+1 {
		t.Errorf("%d components, but %d modules and the standard library are linked", len(b.Components), len(info.Deps))
	}
	for _, m := range info.Deps {
		if !strings.Contains(string(text), fmt.Sprintf("%q", "pkg:golang/"+m.Path+"@"+m.Version)) {
			t.Errorf("%s %s is not in the bill", m.Path, m.Version)
		}
	}
	if strings.Contains(string(text), "goleak") {
		t.Error("the bill has what only tests use")
	}
}
