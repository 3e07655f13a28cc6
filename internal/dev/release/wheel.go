package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// A wheel is what pip, pipx and uv install: a zip with the program among its scripts, and
// no Python in it. See
// https://packaging.python.org/en/latest/specifications/binary-distribution-format/.

// wheelTags are the systems that run a platform's program, as Python names them. The
// program is static, and so needs neither glibc nor musl: the versions are the oldest that
// pip knows by these names. Go 1.26 needs macOS 12.
func (p platform) wheelTags() []string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch]
	switch p.system {
	case "darwin":
		return []string{"macosx_12_0_" + strings.Replace(arch, "aarch64", "arm64", 1)}
	case "windows":
		return []string{"win_" + p.arch}
	default:
		return []string{"manylinux_2_17_" + arch, "manylinux2014_" + arch, "musllinux_1_1_" + arch}
	}
}

// prerelease is what a version may be before it is released, in the words of PEP 440.
var prerelease = regexp.MustCompile(`^(a|alpha|b|beta|rc)\.?(\d+)$`)

// wheelVersion is a version as PEP 440 orders it: 1.0rc1 comes before 1.0, and
// 1.0+5.gabc, five commits later, after it.
func wheelVersion(version string) string {
	public, local, _ := strings.Cut(packageVersion(version), "+")
	number, before, isBefore := strings.Cut(public, "~")
	if m := prerelease.FindStringSubmatch(before); m != nil {
		number += strings.NewReplacer("alpha", "a", "beta", "b").Replace(m[1]) + m[2]
	} else if isBefore {
		number += ".dev0"
		local = strings.Trim(before+"."+local, ".")
	}
	if local == "" {
		return number
	}
	return number + "+" + strings.NewReplacer("+", ".", "~", ".").Replace(local)
}

// makeWheel makes the wheel of a platform, with these programs.
func (r *release) makeWheel(p platform, programs []archivedFile, stage string) error {
	tags := p.wheelTags()
	slices.Sort(tags)
	name := "tunctl_agent-" + wheelVersion(r.version)
	files, err := r.installed(p, name, programs, stage)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(stage, "wheel-")
	if err != nil {
		return err
	}
	add := func(file string, text []byte) error {
		path := filepath.Join(dir, file)
		files = append(files, archivedFile{path: path, name: name + ".dist-info/" + file, mode: 0o644})
		return os.WriteFile(path, text, 0o600)
	}
	metadata, err := r.wheelMetadata()
	if err != nil {
		return err
	}
	if err := add("METADATA", metadata); err != nil {
		return err
	}
	about := "Wheel-Version: 1.0\nGenerator: tunctl-release\nRoot-Is-Purelib: false\n"
	for _, tag := range tags {
		about += "Tag: py3-none-" + tag + "\n"
	}
	if err := add("WHEEL", []byte(about)); err != nil {
		return err
	}
	record, err := wheelRecord(files, name+".dist-info/RECORD")
	if err != nil {
		return err
	}
	if err := add("RECORD", record); err != nil {
		return err
	}
	return r.writeArchive(filepath.Join(r.out, name+"-py3-none-"+strings.Join(tags, ".")+".whl"), "", files)
}

// installed are the files of a wheel that pip puts into an environment: the programs beside
// python, and the man pages where `man` looks for those of a program on the PATH.
func (r *release) installed(p platform, name string, programs []archivedFile, stage string) ([]archivedFile, error) {
	files := []archivedFile{{path: filepath.Join(r.source, "LICENSE"), name: name + ".dist-info/LICENSE", mode: 0o644}}
	for _, f := range programs {
		f.name = name + ".data/scripts/" + f.name
		files = append(files, f)
	}
	if p.system == "windows" {
		return files, nil
	}
	pages, err := filepath.Glob(filepath.Join(stage, "man", "*"))
	for _, page := range pages {
		files = append(files, archivedFile{path: page, name: name + ".data/data/share/man/man" + filepath.Ext(page)[1:] + "/" + filepath.Base(page), mode: 0o644})
	}
	return files, err
}

func (r *release) wheelMetadata() ([]byte, error) {
	t, err := template.ParseFiles(filepath.Join(r.source, "packaging", "METADATA.tmpl"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct{ Version, Home string }{wheelVersion(r.version), r.url})
	return out.Bytes(), err
}

// wheelRecord lists the files of a wheel with their hashes and sizes, and itself without.
func wheelRecord(files []archivedFile, itself string) ([]byte, error) {
	var lines []string
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		lines = append(lines, fmt.Sprintf("%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data)))
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "") + itself + ",,\n"), nil
}
