package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// bom is a bill of materials in the form of CycloneDX 1.5: what a program is made
// of, for those who look for known vulnerabilities.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Timestamp time.Time `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string    `json:"type"`
	Ref     string    `json:"bom-ref"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	PURL    string    `json:"purl"`
	Hashes  []bomHash `json:"hashes,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// writeBOM reads from the program itself what is in it: the linker knows better than
// go.mod, which also lists what only tests and other systems use.
func (r *release) writeBOM(program, path string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	whole := module("application", info.Main.Path, r.version)
	whole.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b := bom{
		Format: "CycloneDX", Spec: "1.5", Serial: serial(sum), Version: 1,
		Metadata:   bomMetadata{Timestamp: r.date, Component: whole},
		Components: []component{module("library", "std", strings.TrimPrefix(info.GoVersion, "go"))},
	}
	for _, m := range info.Deps {
		used := cmp.Or(m.Replace, m)
		b.Components = append(b.Components, module("library", used.Path, used.Version))
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // a release is for everybody
}

func module(kind, path, version string) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}

// serial is a UUID (RFC 9562, version 8) of the program's own bytes: the same
// program has the same bill.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
